package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDoctorSucceedsOnAHealthyService(t *testing.T) {
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

// A command gets SIGTERM one grace before the hold ends.
func TestDoctorShowsTheOutageThatCommandsSurvive(t *testing.T) {
	for ttl, want := range map[string][]string{
		"10s": {"an outage of 7.5s, in", "--grace is 2s by default: they survive an outage of 5.5s, in"},
		"4s":  {"an outage of 2.7s, in", "--grace is 2s by default: they survive an outage of 700ms, in"},
		"2s":  {"an outage of 1.1s, in", "--grace is 1s by default: they survive an outage of 100ms, in"},
	} {
		r := baton(t, "", "doctor", "--url", "memory://?ttl="+ttl)
		for _, w := range want {
			if !strings.Contains(r.out, w) {
				t.Errorf("ttl %s: no %q in\n%s", ttl, w, r.out)
			}
		}
	}
}

func TestBenchMeasuresCycles(t *testing.T) {
	for _, contenders := range []string{"1", "4"} {
		r := baton(t, "", "bench", "--duration", "1s", "--contenders", contenders)
		var cycles, least, median, most int
		_, err := fmt.Sscanf(r.out[strings.Index(r.out, "µs per cycle"):], "µs per cycle: min %d, median %d, p90 %d, p99 %d, max %d", &least, &median, new(int), new(int), &most)
		if _, scanned := fmt.Sscanf(r.out, "%d cycles in", &cycles); r.code != 0 || err != nil || scanned != nil || cycles == 0 || least > median || median > most {
			t.Errorf("%d, %v, %v: %s%s", r.code, err, scanned, r.out, r.err)
		}
	}
}

func TestBenchRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--contenders", "0"}, {"--duration", "0s"}, {"--contenders", "many"},
	} {
		r := baton(t, "", append([]string{"bench"}, args...)...)
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, args[1]) && !strings.Contains(r.err, args[0]) {
			t.Errorf("%q: %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
}

func TestInvalidURLIsAUsageError(t *testing.T) {
	r := baton(t, "", "doctor", "--url", "memory://?ttl=1ms")
	if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "ttl 1ms is not between") {
		t.Errorf("%d\n%s%s", r.code, r.out, r.err)
	}
}
