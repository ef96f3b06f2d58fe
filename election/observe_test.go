package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// view is an Observe under way, and what it has shown.
type view struct {
	mu   sync.Mutex
	seen []election.Leader
	err  error
	stop context.CancelCauseFunc
	done chan struct{}
}

// observe follows the leader beside the test, and returns when all is quiet.
func (p party) observe() *view {
	ctx, stop := context.WithCancelCause(p.Context())
	v := &view{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for l, err := range p.e.Observe(ctx) {
			v.mu.Lock()
			if err != nil {
				v.err = err
			} else {
				v.seen = append(v.seen, l)
			}
			v.mu.Unlock()
		}
	}()
	synctest.Wait()
	return v
}

// take returns what was shown since the last take, as "identity:value", and "-" for nobody.
func (v *view) take() []string {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	var s []string
	for _, l := range v.seen {
		if l.IsZero() {
			s = append(s, "-")
		} else {
			s = append(s, l.Identity+":"+string(l.Value))
		}
	}
	v.seen = nil
	return s
}

func (v *view) want(t *testing.T, want ...string) {
	t.Helper()
	if got := v.take(); !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestObserveShowsThePresentAndThenEachChange(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		v := p[2].observe()
		v.want(t, "-")
		term := p[0].campaign()
		v.want(t, "a:a")
		c := p[1].stand(t.Context())
		v.want(t) // a candidate is no change
		if err := term.Proclaim(t.Context(), []byte("two")); err != nil {
			t.Error(err)
		}
		v.want(t, "a:two")
		p[0].resign(term)
		v.want(t, "b:b") // a hand-over is one step
		late := p[0].observe()
		late.want(t, "b:b")
		p[1].resign(c.won(t))
		v.want(t, "-")
		late.want(t, "-")
		mine := errors.New("mine")
		v.stop(mine)
		late.stop(nil)
		if <-v.done; v.err != mine { //nolint:errorlint // itself
			t.Errorf("ended with %v", v.err)
		}
		if <-late.done; !errors.Is(late.err, context.Canceled) {
			t.Errorf("ended with %v", late.err)
		}
		synctest.Wait()
		if n := p[0].svc.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

func TestObserveEndsOnceWithAnErrorItDoesNotOutlive(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		p[0].svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpHead && r.Driver == p[1].link {
				return memory.Fate{Err: driver.Wrap(driver.ErrRefused, errors.New("no permission"))}
			}
			return memory.Fate{}
		})
		refused := p[1].observe()
		if <-refused.done; !errors.Is(refused.err, coordinator.ErrRefused) || !strings.Contains(refused.err.Error(), "jobs") {
			t.Errorf("refused: %v", refused.err)
		}
		refused.want(t)

		closed := p[2].observe()
		if err := p[2].client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if <-closed.done; !errors.Is(closed.err, coordinator.ErrClosed) {
			t.Errorf("closed: %v", closed.err)
		}
		p[0].svc.Stop()
		away := p[0].observe()
		time.Sleep(time.Minute)
		away.stop(nil)
		if <-away.done; !errors.Is(away.err, coordinator.ErrUnavailable) || !errors.Is(away.err, context.Canceled) {
			t.Errorf("away: %v", away.err)
		}
		p[0].svc.Start()
	})
}
