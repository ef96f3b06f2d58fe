package doublebarrier

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/doublebarrier/internal/round"
)

// TestRecordsFitIntoTheService, which takes 64 KiB: as many members as
// possible, with the longest keys and identities, of which all are lost in each
// round. The record still finds each member, and knows the losses.
func TestRecordsFitIntoTheService(t *testing.T) {
	for _, letter := range []string{"a", "<", `"`, "ü", "界", "\u2028"} {
		s := round.Round{Over: true}
		for n := range int64(8) {
			var list []recipes.Contender
			for i := range int64(MaxMembers) {
				token := coordinator.Token(1<<62 + 1000*n + i)
				list = append(list, recipes.Contender{
					Key: fmt.Sprint(strings.Repeat("k", 900), token), Token: token, Mode: round.Mode(MaxMembers),
					Identity: strings.Repeat(letter, 255/len(letter)),
				})
			}
			var ok bool
			var err error
			if s, ok, err = s.Next(list, MaxMembers); !ok || err != nil {
				t.Fatal(ok, err)
			}
			for i, c := range list {
				if s.Find(c.Key) != i {
					t.Fatalf("member %d is %d", i, s.Find(c.Key))
				}
			}
			for _, next := range []round.Round{s, s.End(s.Identities())} {
				value := next.Encode()
				if len(value) > 64<<10 {
					t.Fatalf("%q: round %d has %d bytes", letter, n, len(value))
				}
				if s, _, err = round.Decode(driver.Record{Value: value, Version: 1}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if lost, ok := s.Lost(s.Round); !ok || len(lost) == 0 || !strings.HasPrefix(lost[0], letter) {
				t.Fatalf("round %d lost %v, %v", n, lost, ok)
			}
		}
	}
}

// TestErrorsShowNoTextOfOthersAsItIs: it could command a terminal, or forge a
// line of a log.
func TestErrorsShowNoTextOfOthersAsItIs(t *testing.T) {
	const evil = "x\x1b[2J\nforged\u202e"
	_, _, wrongNumber := round.Round{}.Next([]recipes.Contender{{Mode: round.Mode(3) + evil, Identity: evil, Token: 1}}, 2)
	for _, err := range []error{&MemberLostError{"n", []string{"web-1", evil}}, wrongNumber} {
		for _, r := range err.Error() {
			if !unicode.IsPrint(r) {
				t.Errorf("%U in %q", r, err)
			}
		}
	}
}
