package fence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// TestResetEndsTheAccessesOfEarlierHolders, which run or wait, whatever their
// tokens: those of the service that replaces the old one may be smaller, so
// that no later token would end them. The next holder waits for the one that
// runs.
func TestResetEndsTheAccessesOfEarlierHolders(t *testing.T) {
	gate, quorum := fence.NewGate(fence.Scope{}), quorumGate(t, 1)
	for what, g := range map[string]struct {
		do    func(driver.Token, func(context.Context) error) error
		reset func()
	}{
		"gate": {func(token driver.Token, access func(context.Context) error) error {
			return gate.Do(context.Background(), orders(token), access)
		}, gate.Reset},
		"quorum": {func(token driver.Token, access func(context.Context) error) error {
			return quorum.Do(context.Background(), []fence.Sequencer{orders(token)}, access)
		}, quorum.Reset},
	} {
		synctest.Test(t, func(t *testing.T) {
			ended, leave, next := make(chan error, 1), make(chan struct{}), make(chan error, 1)
			go func() {
				_ = g.do(1000, func(ctx context.Context) error {
					<-ctx.Done()
					ended <- context.Cause(ctx)
					<-leave
					return nil
				})
			}()
			synctest.Wait()
			waits := make(chan error, 1)
			go func() {
				waits <- g.do(1000, func(context.Context) error {
					t.Errorf("%s: the access of an earlier holder ran after the reset", what)
					return nil
				})
			}()
			synctest.Wait()
			g.reset()
			go func() { next <- g.do(1, func(context.Context) error { return nil }) }()
			synctest.Wait()
			for _, c := range []chan error{ended, waits} {
				select {
				case err := <-c:
					if err == nil || errors.Is(err, fence.ErrStale) || fence.EncodeRefusal(err) != "" {
						t.Errorf("%s: the cause is %v", what, err)
					}
				default:
					t.Errorf("%s: an earlier holder goes on after the reset", what)
				}
			}
			select {
			case <-next:
				t.Errorf("%s: the next holder did not wait", what)
			default:
			}
			close(leave)
			if err := <-next; err != nil {
				t.Errorf("%s: the next holder: %v", what, err)
			}
		})
	}
}

// TestResetRefusesWhatWasConfirmedBefore: the sequencer of a service that is
// replaced would keep out the holders of the new one.
func TestResetRefusesWhatWasConfirmedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var gate fence.Gate
		gate.Confirm = func(_ context.Context, s fence.Sequencer) error {
			if s == orders(5) {
				<-answer
			}
			return nil
		}
		old := make(chan error, 1)
		go func() { old <- gate.Check(t.Context(), orders(5)) }()
		synctest.Wait()
		gate.Reset()
		close(answer)
		if err := <-old; err == nil || fence.EncodeRefusal(err) != "" {
			t.Errorf("the sequencer that was confirmed before the reset: %v", err)
		}
		next := orders(3)
		next.Service += "2"
		if err := gate.Check(t.Context(), next); err != nil {
			t.Errorf("the next holder: %v", err)
		}
	})
}
