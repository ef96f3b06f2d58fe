package recipes_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

var errNoTerms = errors.New("these are no terms")

// agreement is a service with two clients whose contenders agree on how many
// may hold: the record is that number.
type agreement struct {
	*testing.T
	svc  *memory.Service
	a, b *recipes.Queue
}

func inAgreement(t *testing.T, f func(w agreement)) {
	t.Helper()
	inWorld(t, func(w world) {
		f(agreement{w.T, w.svc, w.a.queue, w.b.queue})
		synctest.Wait()
	})
}

// terms follow the record; asked counts the calls of Rule, by whether the
// contender had joined.
func terms(initial string, asked *[2]int) *recipes.Terms {
	return &recipes.Terms{Initial: []byte(initial),
		Rule: func(record driver.Record, joined bool) (recipes.Rule, error) {
			n, err := strconv.Atoi(string(record.Value))
			if asked != nil {
				if asked[0]++; joined {
					asked[1]++
				}
			}
			return func(ahead []driver.Place) recipes.Verdict {
				switch {
				case n == 0:
					return recipes.Verdict{Record: true}
				case len(ahead) < n:
					return recipes.Verdict{Admitted: true}
				}
				return recipes.Verdict{Watch: ahead, Record: true}
			}, errors.Join(err, map[bool]error{true: errNoTerms}[n < 0])
		}}
}

func (w agreement) request(initial string) recipes.Request {
	return recipes.Request{Op: "test", Mode: "x", Terms: terms(initial, nil)}
}

func (w agreement) set(value string) {
	w.Helper()
	check(w, w.a.SetRecord(w.Context(), []byte(value), w.svc.Record(name).Version))
}

// begin starts an Acquire, and returns a channel for its error.
func (w agreement) begin(ctx context.Context, l *recipes.Queue) chan error {
	done := make(chan error, 1)
	go func() {
		h, err := l.Acquire(ctx, w.request(""))
		if err == nil {
			err = h.Release(context.WithoutCancel(ctx))
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestTermsAreAgreedOnBeforeJoining(t *testing.T) {
	inAgreement(t, func(w agreement) {
		for _, r := range []recipes.Request{w.request(""),
			{Op: "test", Mode: "x", Try: true, Terms: terms("", nil)}} {
			if _, err := w.a.Acquire(w.Context(), r); !errors.Is(err, recipes.ErrNoRecord) {
				t.Errorf("without a record: %v", err)
			}
		}
		// Written, but the rule refuses it.
		if _, err := w.a.Acquire(w.Context(), w.request("-1")); !errors.Is(err, errNoTerms) {
			t.Errorf("with an invalid record: %v", err)
		}
		if n := w.svc.Stats().Requests[memory.OpJoin]; n != 0 {
			t.Errorf("%d joins", n)
		}
		w.set("1")
		for _, l := range []*recipes.Queue{w.a, w.b} { // a has written it, b reads it
			if h, err := l.Acquire(w.Context(), w.request("7")); err != nil {
				t.Error(err)
			} else if err := h.Release(w.Context()); err != nil {
				t.Error(err)
			}
		}
		if r, err := w.b.Record(w.Context()); err != nil || string(r.Value) != "1" {
			t.Errorf("record %q, %v", r.Value, err)
		}
	})
}

// TestTermsThatChangeBeforeTheJoinAreAgreedOnAgain: a contender joins only with
// the terms stored at that moment.
func TestTermsThatChangeBeforeTheJoinAreAgreedOnAgain(t *testing.T) {
	inAgreement(t, func(w agreement) {
		w.set("1")
		changes := 0
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin && changes < 3 {
				changes++
				w.set(strconv.Itoa(1 + changes))
			}
			return memory.Fate{}
		})
		var asked [2]int
		h, err := w.b.Acquire(w.Context(),
			recipes.Request{Op: "test", Mode: "x", Terms: terms("", &asked)})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.svc.Stats(); n.Requests[memory.OpJoin] != 4 || n.Entries != 1 ||
			asked != [2]int{4, 0} {
			t.Errorf("%+v; calls of Rule: %v", n, asked)
		}
		check(t, h.Release(w.Context()))
	})
}

func TestWaiterTakesNewTermsAtOnce(t *testing.T) {
	inAgreement(t, func(w agreement) {
		w.set("1")
		h, err := w.a.Acquire(w.Context(), w.request(""))
		check(t, err)
		second := w.begin(w.Context(), w.b)
		w.set("2")
		synctest.Wait()
		if len(second) != 1 || <-second != nil {
			t.Error("not admitted with the new terms")
		}
		third := w.begin(w.Context(), w.b) // beside h
		if len(third) != 1 || <-third != nil {
			t.Error("not admitted beside one holder")
		}
		w.set("1")
		fourth := w.begin(w.Context(), w.b)
		w.set("-5")
		synctest.Wait()
		if len(fourth) != 1 || !errors.Is(<-fourth, errNoTerms) {
			t.Error("waits although the record is invalid")
		}
		check(t, h.Release(w.Context()))
	})
}

// TestWaiterForOtherTermsWatchesTheRecordAlone until it changes or the wait
// ends.
func TestWaiterForOtherTermsWatchesTheRecordAlone(t *testing.T) {
	inAgreement(t, func(w agreement) {
		w.set("0")
		mine := errors.New("mine")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, mine)
		defer cancel()
		if err := <-w.begin(ctx, w.a); !waited(err, "queue", time.Second, mine) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		before := w.svc.Stats()
		done := w.begin(w.Context(), w.b)
		if n := w.svc.Stats(); n.Watches != before.Watches+1 ||
			n.Requests[memory.OpWatch] != before.Requests[memory.OpWatch] {
			t.Errorf("%+v, then %+v", before, n)
		}
		w.set("0") // another record, which admits none either
		synctest.Wait()
		if len(done) != 0 {
			t.Error("admitted")
		}
		w.set("1")
		check(t, <-done)
	})
}

// TestEndOfAWaitIsItsContextsCause, also when the terms change at the same
// time.
func TestEndOfAWaitIsItsContextsCause(t *testing.T) {
	mine := errors.New("mine")
	for range 100 {
		inAgreement(t, func(w agreement) {
			w.set("1")
			h, err := w.a.Acquire(w.Context(), w.request(""))
			check(t, err)
			ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, mine)
			defer cancel()
			done := w.begin(ctx, w.b)
			doomed := w.begin(w.Context(), w.b)
			time.AfterFunc(time.Second, func() { w.set("1") })
			if err := <-done; !errors.Is(err, mine) {
				t.Errorf("got %v", err)
			}
			synctest.Wait()
			session := w.svc.Snapshot(name)[1].Session
			version := w.svc.Record(name).Version
			go func() { _ = w.a.SetRecord(w.Context(), []byte("1"), version) }()
			w.svc.Expire(session)
			if err := <-doomed; !errors.Is(err, coordinator.ErrSessionLost) {
				t.Errorf("got %v", err)
			}
			check(t, h.Release(w.Context()))
		})
	}
}
