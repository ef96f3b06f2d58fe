package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// TestTextsOfOthersCannotCommandTheTerminal: anyone who may write to a queue
// chooses identities, payloads and keys. None of them is printed with a
// character that moves the cursor, turns the direction of writing or begins a
// line.
func TestTextsOfOthersCannotCommandTheTerminal(t *testing.T) {
	const evil = "x\x1b[2J\nbaton: forged\r\u009b\u007f\u202e\u2028\U000e0001y"
	for _, identity := range []string{evil, "x\u202ey\u2028z"} { // the second one is allowed
		onStage(t, func(s *stage) {
			session := must(engine.Of(s.client("web-9")).Session(s.Context()))(s)
			for _, queue := range []driver.Queue{"mutex/jobs", "election/jobs", "group/jobs"} {
				value := must(json.Marshal(map[string]any{"identity": identity, "payload": []byte(evil),
					"nest": map[string]any{"under": []any{map[string]any{"queue": driver.NewQueue("mutex", evil),
						"id": "1", "token": 3, "service": evil}}}}))(s)
				must(session.Join(s.Context(), queue,
					driver.Contender{ID: session.NewID(false), Mode: "x", Value: value}))(s)
			}
			for _, args := range []string{"inspect jobs", "inspect -o json jobs", "list",
				"list -o json", "leader jobs", "leader -o json jobs", "group list jobs", "group list -o json jobs",
				"break jobs --token 99", "doctor", "doctor -o json", "inspect " + evil[:3]} {
				got := s.baton(strings.Fields(args)...)
				for _, r := range got.out + got.err {
					if r != '\n' && !unicode.IsPrint(r) {
						t.Errorf("%s: prints %U in\n%q\n%q", args, r, got.out, got.err)
						break
					}
				}
				if strings.Contains(got.out+got.err, "\nbaton: forged") {
					t.Errorf("%s: forged line in\n%s%s", args, got.out, got.err)
				}
				if strings.Contains(args, "json") && !json.Valid([]byte(got.out)) {
					t.Errorf("%s: no JSON: %s", args, got.out)
				}
			}
		})
	}
}

func TestJSONKeepsItsValues(t *testing.T) {
	var out strings.Builder
	in := "a\"\\\x01\u009b\u202e\U000e0001é日"
	if err := encode(&out, []string{in}, "  "); err != nil {
		t.Fatal(err)
	}
	var back []string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || len(back) != 1 || back[0] != in {
		t.Errorf("%q became %q, %v", in, back, err)
	}
}

func TestFindingsAndMessagesAreOneLine(t *testing.T) {
	var out strings.Builder
	a := newApp(Env{Out: &out, Err: &out})
	evil := "x\x1b[2J\nfailure  forged"
	a.say("taken by %s", evil)
	if err := a.printFindings([]coordinator.Finding{{About: evil, Text: evil, Advice: evil}}, false); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Count(s, "\n") != 3 || strings.Contains(s, "\x1b") {
		t.Errorf("%q", s)
	}
}
