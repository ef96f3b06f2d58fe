package recipes_test

import (
	"fmt"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// kinds are the rules under test, and which contenders have to exclude each
// other. A contender's rule depends on its mode alone.
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
func lines(modes string, f func(queue string)) {
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
// contender and every subset of those ahead: it is admitted exactly if no
// conflict is ahead; once admitted, it stays admitted; and only the departure
// of a watched place can admit it.
func TestRulesAreRightOnEveryShortQueue(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lines(k.modes, func(queue string) {
				me := queue[len(queue)-1]
				ahead := placesOf(queue[:len(queue)-1])
				rule := k.rule(me)
				v := rule(ahead)
				conflicts := 0
				for i := range ahead {
					if k.conflict(queue[i], me) {
						conflicts++
					}
				}
				if v.Admitted != (conflicts == 0) {
					t.Fatalf("queue %q: admitted = %v with %d conflicting ahead", queue, v.Admitted,
						conflicts)
				}
				if !v.Admitted && len(v.Watch) != 1 {
					t.Fatalf("queue %q: waits for %d places, want exactly one", queue, len(v.Watch))
				}
				checkSubsets(t, queue, ahead, rule, v)
			})
		})
	}
}

// checkSubsets removes every subset of the places ahead.
func checkSubsets(t *testing.T, queue string, ahead []driver.Place, rule recipes.Rule,
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
			t.Fatalf("queue %q: no longer admitted when %b leave", queue, gone)
		}
		if !v.Admitted && now && !watchedLeft {
			t.Fatalf("queue %q: departure of %b admits, but only %v is watched: a lost wake-up", queue,
				gone, v.Watch)
		}
	}
}

// TestReleaseWakesThoseAdmittedAndAtMostOneMore checks promise P6 on every
// queue, for every holder in it. (A waiting writer that gives up, which is no
// release, wakes all readers directly behind it once.)
func TestReleaseWakesThoseAdmittedAndAtMostOneMore(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lines(k.modes, func(queue string) {
				for leaver := range len(queue) {
					woken, admitted := 0, 0
					all := placesOf(queue)
					if !k.rule(queue[leaver])(all[:leaver]).Admitted {
						continue
					}
					for i := leaver + 1; i < len(queue); i++ {
						rule := k.rule(queue[i])
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
						t.Fatalf("queue %q: when %d leaves, %d wake and %d are admitted", queue,
							leaver, woken, admitted)
					}
				}
			})
		})
	}
}

// placesOf returns a queue whose contenders have the given modes.
func placesOf(modes string) []driver.Place {
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

// readWriteQueues calls f with every queue of up to shorter readers and
// writers.
func readWriteQueues(f func(queue string)) {
	lines("rw", func(queue string) {
		if len(queue) <= shorter {
			f(queue)
		}
	})
}

// TestConversionsRevokeNoAdmissionAndWakeThoseTheyAdmit checks, on every short
// queue and for its last contender, every subset of those ahead that leave and
// every subset of the writers that become readers: once admitted, it stays
// admitted; and a contender that becomes admitted watches one of those that
// left or were converted.
func TestConversionsRevokeNoAdmissionAndWakeThoseTheyAdmit(t *testing.T) {
	readWriteQueues(func(queue string) {
		me, before := queue[len(queue)-1], queue[:len(queue)-1]
		ahead := placesOf(before)
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
				t.Fatalf("queue %q, fate %d: no longer admitted", queue, fate)
			}
			if !v.Admitted && admitted && !touched {
				t.Fatalf("queue %q, fate %d: admitted, but only %v is watched: a lost wake-up",
					queue, fate, v.Watch)
			}
		}
	})
}

// TestDowngradeWakesThoseAdmittedAndAtMostOneMore is promise P6 for a writer
// that becomes a reader. It admits no writer.
func TestDowngradeWakesThoseAdmittedAndAtMostOneMore(t *testing.T) {
	readWriteQueues(func(queue string) {
		if queue[0] != 'w' {
			return // the only writer that can hold is the first in the queue
		}
		all := placesOf(queue)
		to := append([]driver.Place{{Key: "k0'", ID: "id0", Mode: "r"}}, all[1:]...)
		woken, admitted := 0, 0
		for i := 1; i < len(queue); i++ {
			v, now := rw(queue[i])(all[:i]), rw(queue[i])(to[:i])
			if !v.Admitted && v.Watch[0] == all[0] {
				woken++
			}
			if now.Admitted {
				admitted++
			}
			if now.Admitted && queue[i] == 'w' {
				t.Fatalf("queue %q: writer %d is admitted beside the reader", queue, i)
			}
		}
		if woken > admitted+1 {
			t.Fatalf("queue %q: %d wake and %d are admitted", queue, woken, admitted)
		}
	})
}
