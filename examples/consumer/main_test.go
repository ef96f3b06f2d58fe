package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
)

func inMemory() config {
	return config{url: fleet.InMemory, messages: 6, consumers: 3, key: true, lock: true, work: 100 * time.Millisecond}
}

// TestWhichOneCarriesTheGuarantee: the key does, with or without the lock. The lock saves work, and nothing else.
func TestWhichOneCarriesTheGuarantee(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, lock  bool
		once, idle bool // booked once; no work done twice
	}{
		{"key and lock", true, true, true, true},
		{"key alone", true, false, true, false},
		{"lock alone", false, true, false, false},
		{"neither", false, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				cfg := inMemory()
				cfg.key, cfg.lock = c.key, c.lock
				a, err := run(t.Context(), &out, cfg)
				if err != nil || (a.Balance == 60) != c.once || len(a.Seen) != 6 {
					t.Errorf("%+v, %v\n%s", a, err, &out)
				}
				if strings.Contains(out.String(), "the costly part was done 6 times") != c.idle {
					t.Errorf("%s", &out)
				}
			})
		})
	}
}

// TestConsumerThatWasStoppedBooksNothingTwice: it has lost its lock, does not know it, and goes on.
func TestConsumerThatWasStoppedBooksNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := inMemory()
		cfg.work = time.Minute // longer than the TTL
		replicas, err := fleet.Open(t.Context(), io.Discard, cfg.url, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close(t.Context(), replicas)
		book, b, m := records.Store(t.TempDir()), newBroker(1), message{ID: "m", Amount: 10}
		late := &consumer{Replica: replicas[0], config: cfg, broker: b, book: book}
		done := make(chan error, 1)
		go func() { done <- late.process(context.Background(), m) }() // with a context that does not end: it looks at nothing
		time.Sleep(time.Second)
		cfg.work = time.Second
		if err := (&consumer{Replica: replicas[1], config: cfg, broker: b, book: book}).consume(t.Context(), m); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if a, err := records.Read[account](book, accountKey); a.Balance != 10 || err != nil || b.worked() != 2 {
			t.Errorf("%+v, %v; worked %d times", a, err, b.worked())
		}
	})
}

// TestMessageIsNotDoneWhileAnotherIsAtIt: that one may fail.
func TestMessageIsNotDoneWhileAnotherIsAtIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas, err := fleet.Open(t.Context(), io.Discard, fleet.InMemory, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close(t.Context(), replicas)
		m, book, b := message{ID: "m", Amount: 10}, records.Store(t.TempDir()), newBroker(1)
		first := &consumer{Replica: replicas[0], config: inMemory(), broker: b, book: book}
		second := &consumer{Replica: replicas[1], config: inMemory(), broker: b, book: book}
		ctx, fail := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- first.consume(ctx, m) }()
		synctest.Wait()
		if err := second.consume(t.Context(), m); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("consume = %v", err)
		}
		replicas[0].Crash()
		fail()
		time.Sleep(2 * coordinator.MinTTL)
		replicas[0].Continue()
		if err := <-failed; err == nil {
			t.Error("the first one did not fail")
		}
		if err := second.consume(t.Context(), m); err != nil {
			t.Errorf("delivered again: %v", err)
		}
	})
}

func TestToldToStopIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := run(ctx, io.Discard, inMemory()); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestBadFlagsAreTold(t *testing.T) {
	for want, change := range map[string]func(*config){
		"-messages 0: must be at least 1":  func(c *config) { c.messages = 0 },
		"-consumers 1: must be at least 2": func(c *config) { c.consumers = 1 },
		"-work 0s: must be positive":       func(c *config) { c.work = 0 },
		"redis":                            func(c *config) { c.url = "redis://here" },
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			c := inMemory()
			change(&c)
			if _, err := run(t.Context(), &out, c); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
				t.Errorf("run = %v, want %q; output:\n%s", err, want, &out)
			}
		})
	}
}
