package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	_ "github.com/baton-go/baton/coordinator/memory"
)

// run runs a command line on a memory service of its own.
func run(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var o, e bytes.Buffer
	env := map[string]string{"BATON_URL": "memory://"}
	code = Main(context.Background(), args, Env{
		In: strings.NewReader(""), Out: &o, Err: &e,
		Getenv: func(k string) string { return env[k] }, Environ: func() []string { return nil },
	})
	return code, o.String(), e.String()
}

func TestDoctorOfAHealthyServiceEndsWithZero(t *testing.T) {
	code, out, errs := run(t, "doctor")
	if code != 0 || !strings.Contains(out, "ok       session") || errs != "" {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	code, out, _ = run(t, "doctor", "-o", "json")
	var found []struct{ Grade, About, Text string }
	if err := json.Unmarshal([]byte(out), &found); code != 0 || err != nil || len(found) < 4 || found[0].Grade != "ok" {
		t.Errorf("%d, %v: %s", code, err, out)
	}
}

func TestBenchCountsTurnsAndLeavesNothing(t *testing.T) {
	for _, contenders := range []string{"1", "4"} {
		code, out, errs := run(t, "bench", "-n", "200", "--duration", "1m", "--contenders", contenders, "-o", "json")
		var s summary
		if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || errs != "" {
			t.Fatalf("%d, %v: %s%s", code, err, out, errs)
		}
		want := 200
		if contenders != "1" {
			want-- // the first turn follows none
		}
		if s.Turns != want || s.Min > s.P50 || s.P50 > s.P99 || s.P99 > s.Max || s.PerSecond <= 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestBenchRefusesWhatMakesNoSense(t *testing.T) {
	for _, args := range [][]string{
		{"--contenders", "0"}, {"--turns", "-1"}, {"--duration", "0s"}, {"-o", "xml"}, {"--contenders", "many"},
	} {
		code, out, errs := run(t, append([]string{"bench"}, args...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, args[1]) && !strings.Contains(errs, args[0]) {
			t.Errorf("%q: %d\n%s%s", args, code, out, errs)
		}
	}
}

func TestHistogramHasARowForEachFifthOfADecade(t *testing.T) {
	r := &timings{turns: []time.Duration{time.Millisecond, time.Millisecond, 9 * time.Millisecond}, took: time.Second}
	var b bytes.Buffer
	r.print(&b)
	rows := strings.Split(strings.TrimSpace(b.String()), "\n")[3:]
	if len(rows) != 6 || !strings.Contains(rows[0], "1000 µs") || !strings.HasSuffix(rows[0], " 2") || !strings.HasSuffix(rows[5], " 1") {
		t.Errorf("%q", rows)
	}
}

func TestURLThatBreaksARuleIsUsage(t *testing.T) {
	code, out, errs := run(t, "doctor", "--url", "memory://?ttl=1ms")
	if code != exitUsage || out != "" || !strings.Contains(errs, "ttl 1ms is not between") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}
