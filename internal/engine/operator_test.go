package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

func TestQueuesAreSortedAndBeginWithThePrefix(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		if _, err := s.Service(w.Context()); err != nil { // Baton's own queue, with a record
			t.Fatal(err)
		}
		w.svc.AddForeign("baton/other")
		w.svc.AddForeign("m/not%escaped")
		w.svc.AddForeign("UP/per")
		for i, name := range []string{"orders/nightly", "orders", "cache", "orders-old", "größe"} {
			kinds := []string{"mutex", "election"}
			l, err := engine.QueueOf(kinds[i%2], name)
			check(t, err)
			if _, err := s.Join(w.Context(), l, driver.Contender{ID: fmt.Sprintf("%016x", i), Mode: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		w.svc.AddForeign("election/orders")
		w.svc.AddForeign("mutex/orders")
		other, _ := w.another()
		defer other.Close(w.Context())
		for prefix, want := range map[string]string{
			"":        "[{mutex cache} {mutex größe} {election orders} {mutex orders} {election orders-old} {mutex orders/nightly}]",
			"orders":  "[{election orders} {mutex orders} {election orders-old} {mutex orders/nightly}]",
			"orders/": "[{mutex orders/nightly}]",
			"grö":     "[{mutex größe}]",
			"nothing": "[]",
		} {
			got, err := other.Queues(w.Context(), prefix)
			if err != nil || fmt.Sprint(got) != want {
				t.Errorf("Queues(%q) = %v, %v; want %s", prefix, got, err, want)
			}
		}
	})
}

// broken breaks the entry of these tests with a client that does not hold it.
func (w world) broken(token driver.Token) error {
	w.Helper()
	c, _ := w.another()
	defer c.Close(w.Context())
	return c.Break(w.Context(), "test", "queue", token)
}

func TestBreakRemovesExactlyTheGrantWithTheToken(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		first, second, third := w.joinAs(s, 1), w.joinAs(s, 2), w.joinAs(s, 3)
		check(t, w.broken(second.Token))
		if got := w.tokens(); !slices.Equal(got, []driver.Token{first.Token, third.Token}) {
			t.Errorf("tokens: %v", got)
		}
		for _, token := range []driver.Token{second.Token, third.Token + 1} {
			err := w.broken(token)
			for _, part := range []string{`"queue"`, token.String(), first.Token.String()} {
				if !errors.Is(err, engine.ErrNotHeld) || !strings.Contains(err.Error(), part) {
					t.Errorf("Break(%d) = %v: want ErrNotHeld with %s", token, err, part)
				}
			}
		}
		if got := w.tokens(); len(got) != 2 {
			t.Errorf("tokens: %v", got)
		}
		moved, err := s.Convert(w.Context(), queue, first, "y", nil)
		check(t, err)
		for _, token := range []driver.Token{first.Token, third.Token} { // a conversion keeps the token
			if err := w.broken(token); err != nil {
				t.Errorf("Break(%d), first at %s = %v", token, moved.Key, err)
			}
		}
		if err := w.broken(first.Token); !strings.Contains(err.Error(), "the queue is empty") {
			t.Errorf("Break in an empty queue = %v", err)
		}
		if s.Err() != nil {
			t.Errorf("the session: %v", s.Err())
		}
	})
}

// TestBreakFollowsAConversion between its read and its removal.
func TestBreakFollowsAConversion(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		own := w.joinAs(s, 1)
		converted := false
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpRemove && !converted {
				converted = true
				if _, err := s.Convert(w.Context(), queue, own, "y", nil); err != nil {
					t.Error(err)
				}
			}
			return memory.Fate{}
		})
		if err := w.broken(own.Token); err != nil || len(w.tokens()) != 0 || !converted {
			t.Errorf("Break = %v, tokens: %v, converted: %t", err, w.tokens(), converted)
		}
	})
}

// TestBreakWhoseAnswerIsLost does not report that nothing was removed.
func TestBreakWhoseAnswerIsLost(t *testing.T) {
	within(t, func(w world) {
		own := w.joinAs(w.session(), 1)
		lose := 1
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			lost := r.Op == memory.OpRemove && lose > 0
			if lost {
				lose--
			}
			return memory.Fate{DropReply: lost}
		})
		if err := w.broken(own.Token); err != nil || len(w.tokens()) != 0 {
			t.Errorf("Break = %v, tokens: %v", err, w.tokens())
		}
		own, lose = w.joinAs(w.session(), 2), 1<<30
		c, _ := w.another()
		defer c.Close(w.Context())
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		err := c.Break(ctx, "test", "queue", own.Token)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("Break without an answer = %v", err)
		}
	})
}

func TestBreakRefusesInvalidNamesAndTokens(t *testing.T) {
	within(t, func(w world) {
		for _, c := range []struct {
			kind, name string
			token      driver.Token
		}{{"test", "", 1}, {"test", "a//b", 1}, {"", "a", 1}, {"baton", "service", 1}, {"test", "a", 0}, {"test", "a", -7}} {
			if err := w.client.Break(w.Context(), c.kind, c.name, c.token); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("Break(%q, %q, %d) = %v", c.kind, c.name, c.token, err)
			}
		}
		if n := w.svc.Stats().Total(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// joinAs joins as the i-th contender.
func (w world) joinAs(s *engine.Session, i int) driver.Joined {
	w.Helper()
	j, err := s.Join(w.Context(), queue, driver.Contender{ID: fmt.Sprintf("%016x", i), Mode: "x"})
	check(w, err)
	return j
}

// tokens returns the tokens in the queue of these tests.
func (w world) tokens() (tokens []driver.Token) {
	for _, e := range w.svc.Snapshot(queue) {
		tokens = append(tokens, e.Token)
	}
	return tokens
}
