package semaphore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

func TestBadInputIsRefusedAndNothingIsSent(t *testing.T) {
	parties(t, 3, func(a, _ party) {
		work := func(context.Context, *semaphore.Permit) error { t.Error("worked"); return nil }
		made := func(_ *semaphore.Semaphore, err error) error { return err }
		acquired := func(_ *semaphore.Permit, err error) error { return err }
		stored := a.withLimit(semaphore.Stored)
		for _, c := range []struct {
			want string
			err  error
		}{
			{`limit 0 for semaphore "jobs": want 1 to 1000000000`,
				made(semaphore.New(a.client, "jobs", 0))},
			{`limit -1 for semaphore "jobs": want 1 to 1000000000, or semaphore.Stored`,
				made(semaphore.New(a.client, "jobs", -1))},
			{`limit 1000000001 for semaphore "jobs"`,
				made(semaphore.New(a.client, "jobs", semaphore.MaxLimit+1))},
			{`permits 0 for semaphore "jobs": want 1 to 3`, acquired(a.s.Acquire(a.Context(), 0))},
			{"permits -2", acquired(a.s.Acquire(a.Context(), -2))},
			{`permits 4 for semaphore "jobs": want 1 to 3`, acquired(a.s.Acquire(a.Context(), 4))},
			{"permits 4", acquired(a.s.TryAcquire(a.Context(), 4))},
			{"permits 1000000001", acquired(stored.Acquire(a.Context(), semaphore.MaxLimit+1))},
			{"permits 0", a.s.Do(a.Context(), 0, work)},
			{"permits 4", a.s.Do(a.Context(), 4, work)},
			{`nil work for semaphore "jobs"`, a.s.Do(a.Context(), 1, nil)},
			{`limit 0 for semaphore "jobs": want 1 to 1000000000`, a.s.SetLimit(a.Context(), 0)},
			{"limit -7", a.s.SetLimit(a.Context(), -7)},
			{"limit 1000000001", a.s.SetLimit(a.Context(), semaphore.MaxLimit+1)},
		} {
			if !errors.Is(c.err, coordinator.ErrInvalid) ||
				!strings.Contains(c.err.Error(), c.want) {
				t.Errorf("error %v, want ErrInvalid with %q", c.err, c.want)
			}
		}
		if n := a.svc.Stats().Total(); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}
