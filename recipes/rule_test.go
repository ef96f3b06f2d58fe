package recipes_test

import (
	"fmt"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// kinds are the rules under test with what they promise: which contenders
// exclude each other. A contender's rule depends on its mode alone.
var kinds = []struct {
	name     string
	modes    string
	rule     func(mode byte) recipes.Rule
	conflict func(a, b byte) bool
}{
	{
		name: "Exclusive", modes: "x",
		rule:     func(byte) recipes.Rule { return recipes.Exclusive },
		conflict: func(byte, byte) bool { return true },
	},
	{
		name: "Shared", modes: "rw",
		rule: func(m byte) recipes.Rule {
			if m == 'r' {
				return recipes.Shared("r")
			}
			return recipes.Exclusive
		},
		conflict: func(a, b byte) bool { return a == 'w' || b == 'w' },
	},
}

const longest = 8

// queues calls f with every queue of up to longest contenders.
func lines(modes string, f func(line string)) {
	level := []string{""}
	for range longest {
		var next []string
		for _, l := range level {
			for _, m := range modes {
				next = append(next, l+string(m))
			}
		}
		for _, l := range next {
			f(l)
		}
		level = next
	}
}

// TestRulesAreRightOnEveryShortQueue checks on every queue, for its last
// contender and every subset of those ahead: the admission is exactly "no
// conflict ahead"; once admitted, admitted for ever; and nothing but a watched
// leaving can admit it.
func TestRulesAreRightOnEveryShortQueue(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lines(k.modes, func(line string) {
				me := line[len(line)-1]
				ahead := standing(line[:len(line)-1])
				rule := k.rule(me)
				v := rule(ahead)
				conflicts := 0
				for i := range ahead {
					if k.conflict(line[i], me) {
						conflicts++
					}
				}
				if v.Admitted != (conflicts == 0) {
					t.Fatalf("queue %q: admitted = %v with %d conflicting ahead", line, v.Admitted,
						conflicts)
				}
				if !v.Admitted && len(v.Watch) != 1 {
					t.Fatalf("queue %q: waits for %d places, want exactly one", line, len(v.Watch))
				}
				checkSubsets(t, line, ahead, rule, v)
			})
		})
	}
}

// checkSubsets removes every subset of those ahead.
func checkSubsets(t *testing.T, line string, ahead []driver.Place, rule recipes.Rule,
	v recipes.Verdict) {
	t.Helper()
	for gone := range 1 << len(ahead) {
		var left []driver.Place
		watchedLeft := false
		for i, p := range ahead {
			if gone&(1<<i) == 0 {
				left = append(left, p)
			} else if !v.Admitted && p == v.Watch[0] {
				watchedLeft = true
			}
		}
		now := rule(left).Admitted
		if v.Admitted && !now {
			t.Fatalf("queue %q: admission is taken back when %b leave", line, gone)
		}
		if !v.Admitted && now && !watchedLeft {
			t.Fatalf("queue %q: leaving of %b admits, but only %v is watched: a lost wake-up", line,
				gone, v.Watch)
		}
	}
}

// TestReleaseWakesThoseAdmittedAndAtMostOneMore checks promise P6 on every
// queue, for every holder in it. (A waiting writer that gives up wakes all
// readers directly behind it, once; that is no release.)
func TestReleaseWakesThoseAdmittedAndAtMostOneMore(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lines(k.modes, func(line string) {
				for leaver := range len(line) {
					woken, admitted := 0, 0
					all := standing(line)
					if !k.rule(line[leaver])(all[:leaver]).Admitted {
						continue
					}
					for i := leaver + 1; i < len(line); i++ {
						rule := k.rule(line[i])
						v := rule(all[:i])
						if v.Admitted || v.Watch[0] != all[leaver] {
							continue
						}
						woken++
						left := append(append([]driver.Place{}, all[:leaver]...),
							all[leaver+1:i]...)
						if rule(left).Admitted {
							admitted++
						}
					}
					if woken > admitted+1 {
						t.Fatalf("queue %q: when %d leaves, %d wake and %d are admitted", line,
							leaver, woken, admitted)
					}
				}
			})
		})
	}
}

// standing returns a queue whose contenders have the given modes.
func standing(modes string) []driver.Place {
	p := make([]driver.Place, len(modes))
	for i := range modes {
		p[i] = driver.Place{Key: fmt.Sprint("k", i), ID: fmt.Sprint("id", i),
			Mode: string(modes[i])}
	}
	return p
}

// rw is the rule of a read-write queue for a mode.
func rw(mode byte) recipes.Rule {
	if mode == 'r' {
		return recipes.Shared("r")
	}
	return recipes.Exclusive
}

// shorter bounds the queues of tests that try three fates for each contender.
const shorter = 6

// readWriteLines calls f with every queue of up to shorter readers and writers.
func readWriteQueues(f func(line string)) {
	lines("rw", func(line string) {
		if len(line) <= shorter {
			f(line)
		}
	})
}

// TestConversionsTakeNoAdmissionBackAndWakeWhoTheyAdmit checks, on every short
// queue and for its last contender, every subset of those ahead that leave and
// every subset of the writers that go on as readers: once admitted, admitted
// for ever; and whoever becomes admitted watches one of those that left or were
// converted.
func TestConversionsTakeNoAdmissionBackAndWakeWhoTheyAdmit(t *testing.T) {
	readWriteQueues(func(line string) {
		me, before := line[len(line)-1], line[:len(line)-1]
		ahead := standing(before)
		v := rw(me)(ahead)
		fates := 1
		for range ahead {
			fates *= 3
		}
		for fate := range fates {
			var now []driver.Place
			touched := false
			for i, rest := 0, fate; i < len(ahead); i, rest = i+1, rest/3 {
				p := ahead[i]
				switch {
				case rest%3 == 0: // stays
					now = append(now, p)
					continue
				case rest%3 == 1 && p.Mode == "w":
					now = append(now, driver.Place{Key: p.Key + "'", ID: p.ID, Mode: "r"})
				}
				touched = touched || !v.Admitted && p == v.Watch[0]
			}
			admitted := rw(me)(now).Admitted
			if v.Admitted && !admitted {
				t.Fatalf("queue %q, fate %d: admission is taken back", line, fate)
			}
			if !v.Admitted && admitted && !touched {
				t.Fatalf("queue %q, fate %d: admitted, but only %v is watched: a lost wake-up",
					line, fate, v.Watch)
			}
		}
	})
}

// TestDowngradeWakesThoseAdmittedAndAtMostOneMore is promise P6 for a writer
// that goes on as a reader. No writer is admitted by that.
func TestDowngradeWakesThoseAdmittedAndAtMostOneMore(t *testing.T) {
	readWriteQueues(func(line string) {
		if line[0] != 'w' {
			return // the only writer who can hold is the first in the queue
		}
		all := standing(line)
		to := append([]driver.Place{{Key: "k0'", ID: "id0", Mode: "r"}}, all[1:]...)
		woken, admitted := 0, 0
		for i := 1; i < len(line); i++ {
			v, now := rw(line[i])(all[:i]), rw(line[i])(to[:i])
			if !v.Admitted && v.Watch[0] == all[0] {
				woken++
			}
			if now.Admitted {
				admitted++
			}
			if now.Admitted && line[i] == 'w' {
				t.Fatalf("queue %q: writer %d is admitted beside the reader", line, i)
			}
		}
		if woken > admitted+1 {
			t.Fatalf("queue %q: %d wake and %d are admitted", line, woken, admitted)
		}
	})
}
