package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// The other clients are Curator and Kazoo.
func TestSemaphoreIsSharedWithCuratorAndKazoo(t *testing.T) {
	s := newZKSite(t)
	for _, c := range []struct {
		name, layout string
		other        starter
	}{{"Curator", "curator", s.curator}, {"Kazoo", "kazoo", s.kazoo}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := "/interop/semaphore-" + c.name
			a, b := s.baton(c.layout)(t, long), c.other(t, long)
			handed(t, path+"-1", a, "semaphore1", b, "semaphore1")
			g := newGround(t)
			counts := map[string]int{}
			for _, n := range g.play(path, 0, lap{a, "semaphore3", 4, 28}, lap{b, "semaphore3", 4, 28}) {
				counts[n.kind+" "+n.who]++
			}
			t.Logf("holds: %v", counts)
			if len(counts) != 2 || counts["p baton"] != 112 {
				t.Errorf("holds: %v", counts)
			}
			shared(t, path+"-2", s.baton(c.layout)(t, long), a, b, c.other(t, long))
			killed(t, path+"-1", s.baton(c.layout)(t, brief), "semaphore1", b, "semaphore1")
			killed(t, path+"-1", c.other(t, brief), "semaphore1", a, "semaphore1")
		})
	}
}

// shared makes two parties hold the only two permits, and two others wait.
func shared(t *testing.T, path string, parties ...party) {
	t.Helper()
	take := func(p party) { p.tell("take semaphore2 %s", path) }
	for _, p := range parties[:2] {
		take(p)
		p.got()
	}
	take(parties[2])
	parties[2].waits()
	take(parties[3])
	parties[3].waits()
	for i, p := range parties {
		p.tell("release")
		p.hear("released")
		if i < 2 {
			parties[i+2].got() // in the order of the requests
		}
	}
}

// Grants and refusals match the other client's.
func TestSharedSemaphoresBehaveAsTheOtherClients(t *testing.T) {
	site := newZKSite(t)
	ctx := bounded(t)
	for _, layout := range []string{"curator", "kazoo"} {
		c := site.client(t, layout)
		name := "/interop/semaphore-rules-" + layout
		s, err := semaphore.New(c, name, 2)
		check(t, err)
		p, err := s.Acquire(ctx, 1)
		check(t, err)
		q, err := s.TryAcquire(ctx, 1)
		check(t, err)
		_, err = s.TryAcquire(ctx, 1)
		check(t, err, coordinator.ErrTaken)
		short, cancel := context.WithTimeout(ctx, settle)
		_, err = s.Acquire(short, 1)
		check(t, err, context.DeadlineExceeded)
		cancel()
		l, err := s.List(ctx)
		for deadline := time.Now().Add(callBound); len(l.Contenders) != 2 && time.Now().Before(deadline); l, err = s.List(ctx) {
		}
		check(t, err)
		if l.Limit != 2 || l.Held != 2 || len(l.Contenders) != 2 || l.Free() != 0 {
			t.Errorf("%s: %+v", layout, l)
		}
		_, err = s.Acquire(ctx, 2)
		check(t, err, coordinator.ErrInvalid)
		check(t, s.SetLimit(ctx, 3), coordinator.ErrInvalid)
		_, err = p.Slots(ctx)
		check(t, err, coordinator.ErrInvalid)
		_, err = p.ReleasePart(ctx, 1)
		check(t, err, coordinator.ErrInvalid)
		check(t, p.Release(ctx))
		check(t, p.Release(ctx), coordinator.ErrNotHeld)
		check(t, q.Release(ctx))

		other, err := semaphore.New(c, name, 3)
		check(t, err)
		_, err = other.Acquire(ctx, 1)
		var mismatch *semaphore.LimitError
		if layout == "curator" { // Curator stores no limit
			check(t, err)
		} else if !errors.As(err, &mismatch) || mismatch.Stored != 2 || mismatch.Asked != 3 {
			t.Errorf("another limit: %v", err)
		}
		stored, err := semaphore.New(c, name, semaphore.Stored)
		check(t, err)
		n, err := stored.Limit(ctx)
		if layout == "curator" {
			check(t, err, semaphore.ErrNoLimit)
		} else if err != nil || n != 2 {
			t.Errorf("stored: %d, %v", n, err)
		}
	}
}
