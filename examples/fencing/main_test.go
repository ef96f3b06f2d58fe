package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// TestLateWriteIsRefusedByAll is the story, in real time: servers are at work.
func TestLateWriteIsRefusedByAll(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, coordinator.MinTTL); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	rest := out.String()
	for _, line := range []string{
		"first   has the lock, with token", "first   ... is stopped", "second  has the lock, with token", "first   ... goes on",
		"a ledger in memory   refuses it: fence: stale token: token ", ", after token ",
		"an HTTP server       refuses it: fence: stale token: token ", ", after token ",
		"a gRPC server        refuses it: rpc error: code = FailedPrecondition desc = fence: stale token: token ", ", after token ",
		"one that asks        refuses it: fence: stale token: token ", ": the grant is over",
		"first   looks at its lock again: session lost",
	} {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("no %q in turn in\n%s", line, &out)
		}
		rest = after
	}
}

func TestInterruptedStoryEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := run(ctx, io.Discard, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestBadTTLIsRefused(t *testing.T) {
	if err := run(t.Context(), io.Discard, time.Millisecond); !errors.Is(err, coordinator.ErrInvalid) {
		t.Error(err)
	}
}
