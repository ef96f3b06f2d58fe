package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// output is written by many.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Split(strings.TrimSpace(o.b.String()), "\n")
}

func fleet(o *output) settings {
	return settings{url: "memory://", name: "downstream", limit: 3, workers: 2, calls: 4, call: 80 * time.Millisecond, out: o}
}

// TestFleetIsLimited runs the program as it runs without flags, in virtual time.
func TestFleetIsLimited(t *testing.T) {
	for _, limit := range []int{1, 3, 100} {
		synctest.Test(t, func(t *testing.T) {
			var o output
			s := fleet(&o)
			s.limit = limit
			if err := s.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			lines := o.lines()
			want := fmt.Sprintf("at most %d at a time of %d allowed", min(limit, 10), limit) // five replicas of two workers
			if last := lines[len(lines)-1]; len(lines) != 41 || !strings.HasPrefix(last, "40 calls in ") || !strings.Contains(last, want) {
				t.Errorf("%d lines, the last is %q; want %q", len(lines), last, want)
			}
		})
	}
}

// TestStoredLimitIsTaken with -limit 0.
func TestStoredLimitIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o output
		s, svc := fleet(&o), memory.NewService()
		for _, s.limit = range []int{3, 0} { // the first stores it
			client, err := coordinator.New(svc.Driver())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.replica(t.Context(), client, &gauge{out: &o, began: time.Now()}); err != nil {
				t.Errorf("-limit %d: %v", s.limit, err)
			}
		}
	})
}

// TestFleetStopsWhenTold and gives back what it holds.
func TestFleetStopsWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var o output
		s := fleet(&o)
		began := time.Now()
		if err := s.run(ctx); err != nil || !strings.Contains(o.b.String(), " calls in ") {
			t.Errorf("run = %v; output:\n%s", err, o.b.String())
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
	})
}

// TestFailureIsToldAlthoughItWasToldToStop as well, and no summary is printed.
func TestFailureIsToldAlthoughItWasToldToStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o output
	s := fleet(&o)
	s.url = "redis://localhost"
	if err := s.run(ctx); !errors.Is(err, coordinator.ErrInvalid) || o.b.Len() > 0 {
		t.Errorf("run = %v; output:\n%s", err, o.b.String())
	}
}

func TestBadFlagsAreTold(t *testing.T) {
	for want, change := range map[string]func(*settings){
		"-limit -1: must be at least 0":             func(s *settings) { s.limit = -1 },
		"-limit 0: must be at least 1 with -change": func(s *settings) { s.limit, s.change = 0, true },
		"-replicas -1: must be at least 0":          func(s *settings) { s.replicas = -1 },
		"-workers -1: must be at least 1":           func(s *settings) { s.workers = -1 },
		"-workers 0: must be at least 1":            func(s *settings) { s.workers = 0 },
		"-calls 0: must be at least 1":              func(s *settings) { s.calls = 0 },
		"-call 0s: must be positive":                func(s *settings) { s.call = 0 },
		"name is empty":                             func(s *settings) { s.name = "" },
		"scheme":                                    func(s *settings) { s.url = "redis://localhost" },
	} {
		var o output
		s := fleet(&o)
		change(&s)
		if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), want) || o.b.Len() > 0 {
			t.Errorf("run = %v, want %q; output:\n%s", err, want, o.b.String())
		}
	}
}
