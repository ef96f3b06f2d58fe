package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestDoctorOfAHealthyServiceEndsWithZero(t *testing.T) {
	r := baton(t, "", "doctor")
	if r.code != 0 || !strings.Contains(r.out, "ok       session") || r.err != "" {
		t.Errorf("%d\n%s%s", r.code, r.out, r.err)
	}
	r = baton(t, "", "doctor", "-o", "json")
	var found []struct{ Grade, About, Text string }
	if err := json.Unmarshal([]byte(r.out), &found); r.code != 0 || err != nil || len(found) < 4 || found[0].Grade != "ok" {
		t.Errorf("%d, %v: %s", r.code, err, r.out)
	}
}

func TestBenchCountsTurnsAndLeavesNothing(t *testing.T) {
	for _, contenders := range []string{"1", "4"} {
		r := baton(t, "", "bench", "-n", "200", "--duration", "1m", "--contenders", contenders, "-o", "json")
		var s summary
		if err := json.Unmarshal([]byte(r.out), &s); r.code != 0 || err != nil || r.err != "" {
			t.Fatalf("%d, %v: %s%s", r.code, err, r.out, r.err)
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
		r := baton(t, "", append([]string{"bench"}, args...)...)
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, args[1]) && !strings.Contains(r.err, args[0]) {
			t.Errorf("%q: %d\n%s%s", args, r.code, r.out, r.err)
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
	r := baton(t, "", "doctor", "--url", "memory://?ttl=1ms")
	if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "ttl 1ms is not between") {
		t.Errorf("%d\n%s%s", r.code, r.out, r.err)
	}
}
