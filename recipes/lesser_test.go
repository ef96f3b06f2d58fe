package recipes_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

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

// TestConversionsTakeNoAdmissionBackAndWakeWhoTheyAdmit checks, on every short queue and for its last contender, every subset of
// those ahead that leave and every subset of the writers that go on as readers: once admitted, admitted for
// ever; and whoever becomes admitted watches one of those that left or were converted.
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
				t.Fatalf("queue %q, fate %d: admitted, but only %v is watched: a lost wake-up", line, fate, v.Watch)
			}
		}
	})
}

// TestDowngradeWakesThoseAdmittedAndAtMostOneMore is promise P6 for a writer that goes on as a reader. No writer is
// admitted by that.
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
