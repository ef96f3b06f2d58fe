package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

func TestReplicasHandOverInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		if err := run(t.Context(), config{url: inMemory, name: "demo", every: 250 * time.Millisecond, drain: 10 * time.Second}, &out); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		rest := out.String()
		job := 0
		for i, name := range []string{"one", "two", "three"} {
			for _, line := range []string{"leads with token", "ran job", "ran job", "hands over (context canceled)"} {
				want := fmt.Sprintf("%-5s %s", name, line)
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("replica %d: no %q in turn in\n%s", i, want, out.String())
				}
				if rest = after; line == "ran job" {
					job++
				}
			}
		}
		if !strings.Contains(rest, "in 3 terms, none twice and none left out") || job != 6 {
			t.Errorf("no summary:\n%s", out.String())
		}
	})
}

func TestDemoEndsEarlyWhenItIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := run(ctx, config{url: inMemory, name: "demo", every: 500 * time.Millisecond, drain: 10 * time.Second}, io.Discard); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestReplicaAnswersProbes(t *testing.T) {
	svc := memory.NewService()
	out, in := io.Pipe()
	said := bufio.NewScanner(out)
	r := &replica{jobs: new(ledger), config: config{name: "one", every: time.Millisecond, drain: time.Second}, out: &printer{out: in}}
	var err error
	if r.client, err = coordinator.New(svc.Driver(), coordinator.WithObserver(&r.place)); err != nil {
		t.Fatal(err)
	}
	var stop func()
	listening := make(chan error, 1)
	go func() {
		var err error
		stop, err = r.listen("127.0.0.1:0")
		listening <- err
	}()
	line := await(t, said, " on ")
	if err := <-listening; err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, addr, _ := strings.Cut(line, " on ")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	status := func(path string) int {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	probes := func(when string, ready, leader int) {
		t.Helper()
		if r, l, live := status("/ready"), status("/leader"), status("/live"); r != ready || l != leader || live != http.StatusOK {
			t.Errorf("%s: ready %d, leader %d, live %d", when, r, l, live)
		}
	}
	probes("before it stands in line", http.StatusServiceUnavailable, http.StatusServiceUnavailable)
	other, err := coordinator.New(svc.Driver())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	e, err := election.New(other, "scheduler")
	if err != nil {
		t.Fatal(err)
	}
	ahead, err := e.Campaign(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- r.run(ctx) }()
	await(t, said, "is a candidate")
	for deadline := time.Now().Add(time.Minute); status("/ready") != http.StatusOK && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	probes("behind the leader", http.StatusOK, http.StatusServiceUnavailable)
	if err := ahead.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, said, "leads with token")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	probes("as leader", http.StatusOK, http.StatusOK)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	probes("after its end", http.StatusServiceUnavailable, http.StatusServiceUnavailable)
}

// await returns the first line with a text.
func await(t *testing.T, said *bufio.Scanner, text string) string {
	t.Helper()
	for said.Scan() {
		if strings.Contains(said.Text(), text) {
			return said.Text()
		}
	}
	t.Fatalf("never said %q: %v", text, said.Err())
	return ""
}

// TestLostLead: who has lost the lead has nothing to hand over.
func TestLostLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := coordinator.New(memory.NewService().Driver())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		r := &replica{client: client, jobs: new(ledger), config: config{name: "one", every: time.Second, drain: time.Second}, out: &printer{out: &out}}
		done := make(chan error, 1)
		go func() { done <- r.run(t.Context()) }()
		time.Sleep(2700 * time.Millisecond) // between two jobs
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("run = %v", err)
		}
		if s := out.String(); !strings.Contains(s, "one   stops (") || strings.Contains(s, "hands over") {
			t.Errorf("%s", s)
		}
	})
}

func TestBadFlagsAreRefused(t *testing.T) {
	for want, cfg := range map[string]config{
		"-every 0s: must be positive": {url: inMemory, name: "one", drain: time.Second},
		"-drain 0s: must be positive": {url: inMemory, name: "one", every: time.Second},
		`-name "": must not be empty`: {url: inMemory, every: time.Second, drain: time.Second},
		"-http :0: must not be given": {url: inMemory, name: "one", every: time.Second, drain: time.Second, http: ":0"},
		"redis":                       {url: "redis://here", name: "one", every: time.Second, drain: time.Second},
	} {
		if err := run(t.Context(), cfg, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run = %v, want %q", err, want)
		}
	}
}

// TestOneReplicaRunsUntilItIsToldToStop takes the way of -url. The slash makes it another URL than that of the demo.
func TestOneReplicaRunsUntilItIsToldToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := run(ctx, config{url: "memory:///", name: "solo", every: time.Second, drain: time.Second}, &out); err != nil {
			t.Error(err)
		}
		if s := out.String(); !strings.Contains(s, "solo  ran job 60") || !strings.HasSuffix(s, "solo  has stopped\n") {
			t.Errorf("%s", s)
		}
	})
}

// TestPlaceIsKeptWhenALossIsToldLate: the next contender stands in line by then.
func TestPlaceIsKeptWhenALossIsToldLate(t *testing.T) {
	var p place
	for i, step := range []struct {
		event event.Event
		want  int
	}{
		{event.Event{Kind: event.Joined, Token: 1}, http.StatusOK},
		{event.Event{Kind: event.Joined, Token: 2}, http.StatusOK},
		{event.Event{Kind: event.Lost, Token: 1}, http.StatusOK},
		{event.Event{Kind: event.NotGranted}, http.StatusOK}, // it had no session, and has not joined
		{event.Event{Kind: event.NotGranted, Token: 2}, http.StatusServiceUnavailable},
	} {
		p.Observe(step.event)
		answer := httptest.NewRecorder()
		if p.ServeHTTP(answer, nil); answer.Code != step.want {
			t.Errorf("after event %d, %v: %d", i, step.event.Kind, answer.Code)
		}
	}
}
