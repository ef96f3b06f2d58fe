package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
)

func TestWorkersExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		if err := run(t.Context(), log.New(&out, "", 0), "memory://"); err != nil {
			t.Fatal(err)
		}
		for worker := 1; worker <= 3; worker++ {
			want := fmt.Sprintf("worker %d has turn 3,", worker)
			if strings.Count(out.String(), want) != 1 {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
		if took := time.Since(began); took != 900*time.Millisecond {
			t.Errorf("nine turns of 100 ms took %v:\n%s", took, &out)
		}
	})
}

func TestRunReportsWhyItStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, log.Default(), "memory://"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	err := run(t.Context(), log.Default(), "redis://here")
	if !errors.Is(err, coordinator.ErrInvalid) {
		t.Errorf("unknown scheme: %v", err)
	}
}
