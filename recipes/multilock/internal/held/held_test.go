package held_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
)

// handle is a member whose clock has passed its deadline, if err says so, while
// nothing has ended its context yet.
type handle struct{ err error }

func (h *handle) Context() context.Context { return context.Background() }
func (h *handle) Err() error               { return h.err }
func (h *handle) Deadline() time.Time      { return time.Now().Add(time.Hour) }
func (h *handle) Token() coordinator.Token { return 1 }

// TestErrAsksEachMember: what watches the members' deadlines may be late, on a
// busy machine, so a hold that is asked reads their clocks.
func TestErrAsksEachMember(t *testing.T) {
	late := errors.New("past its deadline")
	for need := 1; need <= 3; need++ {
		l := held.New(context.Background(), 3, need, func(int) string { return "member" })
		members := make([]*handle, 3)
		for i := range members {
			members[i] = &handle{}
			l.Add(i, members[i], nil)
		}
		for lost := range members {
			members[lost].err = late
			if err := l.Err(); errors.Is(err, late) != (3-lost-1 < need) {
				t.Errorf("%d of 3 needed, %d past their deadlines: %v", need, lost+1, err)
			}
		}
	}
}
