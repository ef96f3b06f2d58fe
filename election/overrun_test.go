package election_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
)

func TestWorkThatOverrunsDoesNotHoldTheNameForEver(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		stuck, stopped := make(chan struct{}), make(chan struct{})
		free := sync.OnceFunc(func() { close(stuck) })
		defer free()
		var term *election.Term
		hooked := false
		r := a.run(func(_ context.Context, own *election.Term) error {
			term = own
			<-stuck
			close(stopped)
			return errMine // Run has returned
		}, election.WithDrain(7*time.Second), election.WithOnOverrun(func() {
			hooked = true
			if term.Err() != nil {
				t.Errorf("the hook was called after the term: %v", term.Err())
			}
		}))
		c := b.enqueue(t.Context())
		began := time.Now()
		r.stop(errMine)
		err := r.ended()
		if !errors.Is(err, election.ErrOverrun) || !errors.Is(err, errMine) ||
			!strings.Contains(err.Error(), "7s") {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(began); took != 7*time.Second || !hooked {
			t.Errorf("after %v, hook called: %v", took, hooked)
		}
		next := c.won(t)
		if term.Err() == nil || next.Token() <= term.Token() {
			t.Errorf("%v; token %d, then %d", term.Err(), term.Token(), next.Token())
		}
		b.resign(next)
		free()
		<-stopped
	})
}

func TestDefaultDrainIsHalfAMinuteAndForeverIsForever(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		for _, c := range []struct {
			opts  []election.RunOption
			takes time.Duration
			want  bool
		}{
			{nil, 29 * time.Second, false},
			{nil, 31 * time.Second, true},
			{[]election.RunOption{election.WithDrain(election.Forever),
				election.WithOnOverrun(func() { t.Error("hook") })}, time.Hour, false},
		} {
			r := p[0].run(func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				time.Sleep(c.takes)
				return nil
			}, c.opts...)
			r.stop(errMine)
			if err := r.ended(); errors.Is(err, election.ErrOverrun) != c.want ||
				!errors.Is(err, errMine) {
				t.Errorf("work that takes %v to stop: Run = %v", c.takes, err)
			}
		}
		time.Sleep(time.Minute)
	})
}

// slow is a cause whose Error takes so long that both Run's timer and the
// work's outcome are ready afterwards.
type slow struct{}

func (slow) Error() string {
	time.Sleep(10 * time.Second)
	return "slow"
}

// TestWorkThatStopsAtTheLastMomentIsInTime: Run takes the outcome although the
// drain is over too.
func TestWorkThatStopsAtTheLastMomentIsInTime(t *testing.T) {
	for range 30 {
		parties(t, 1, func(t *testing.T, p ...party) {
			var s stage
			r := p[0].run(func(ctx context.Context, term *election.Term) error {
				defer s.enter(p[0], term)()
				<-ctx.Done()
				time.Sleep(time.Second)
				return errMine
			}, election.WithDrain(time.Second), election.WithOnOverrun(func() { t.Error("hook") }))
			r.stop(slow{})
			err := r.ended()
			if !errors.Is(err, errMine) || errors.Is(err, election.ErrOverrun) ||
				len(s.working()) != 0 {
				t.Errorf("Run ended, %v work", s.working())
			}
		})
	}
}

// TestOverrunAfterALossIsReportedWhenOthersMayLead, not only when the drain is
// over.
func TestOverrunAfterALossIsReportedWhenOthersMayLead(t *testing.T) {
	const margin = coordinator.DefaultTTL / 10
	for name, c := range map[string]struct {
		opts  []election.RunOption
		takes time.Duration // the work, to stop
		hook  time.Duration // after the loss; negative: never
		err   error
	}{
		"in time":      {nil, margin / 2, -1, nil},
		"late":         {nil, 20 * time.Second, margin, nil},
		"far too late": {nil, time.Minute, margin, election.ErrOverrun},
		"no bound": {[]election.RunOption{election.WithDrain(election.Forever)}, time.Hour,
			margin, nil},
		"shorter drain": {[]election.RunOption{election.WithDrain(margin / 4)}, time.Minute,
			margin / 4, election.ErrOverrun},
	} {
		for _, drained := range []bool{false, true} { // lost while it drains
			parties(t, 1, func(t *testing.T, p ...party) {
				a := p[0]
				var lost notes[time.Time]
				var hooks []time.Duration
				ctx, stop := context.WithCancelCause(t.Context())
				opts := append(c.opts, election.WithOnOverrun(
					func() { hooks = append(hooks, time.Since(lost.get()[0])) }))
				terms := 0
				err := a.e.Run(ctx, func(ctx context.Context, term *election.Term) error {
					if terms++; terms > 1 {
						return election.Stop(errMine)
					}
					if drained {
						stop(errMine)
						<-ctx.Done()
					}
					a.link.Cut()
					if drained && c.hook == margin/4 { // it is over before the loss would come
						a.svc.Expire(term.Session())
						a.link.Heal()
					}
					<-term.Context().Done()
					lost.add(time.Now())
					a.link.Heal()
					time.Sleep(c.takes)
					return nil
				}, opts...)
				if c.err != nil && (!errors.Is(err, c.err) || !errors.Is(err, coordinator.ErrSessionLost)) ||
					c.err == nil && !errors.Is(err, errMine) {
					t.Errorf("%s, drained %v: Run = %v", name, drained, err)
				}
				if c.hook < 0 && len(hooks) != 0 ||
					c.hook >= 0 && (len(hooks) != 1 || hooks[0] != c.hook) {
					t.Errorf("%s, drained %v: the hook was called %v after the loss, want %v", name,
						drained, hooks, c.hook)
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

// TestOverrunAfterALateNoticeIsReportedAtOnce: the time until others may lead
// counts from the loss, not from when Run notices it.
func TestOverrunAfterALateNoticeIsReportedAtOnce(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		var reported notes[time.Duration]
		began := time.Now()
		r := a.run(func(ctx context.Context, _ *election.Term) error {
			<-ctx.Done()
			a.link.Cut()
			time.Sleep(time.Minute)
			return nil
		}, election.WithDrain(election.Forever),
			election.WithOnOverrun(func() { reported.add(time.Since(began)) }))
		r.stop(slow{}) // Run and its log are blocked for 10 s each; Run waits shortly for the log
		_ = r.ended()
		if got := reported.get(); len(got) != 1 || got[0] != 10*time.Second+100*time.Millisecond {
			t.Errorf("reported after %v", got)
		}
		a.link.Heal()
	})
}

// TestWorkThatHasResignedHasNotLostItsTerm: only its drain is bounded.
func TestWorkThatHasResignedHasNotLostItsTerm(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		err := p[0].e.Run(t.Context(), func(_ context.Context, term *election.Term) error {
			p[0].resign(term)
			time.Sleep(20 * time.Second)
			return nil
		}, election.WithOnOverrun(func() { t.Error("hook") }))
		if err != nil {
			t.Error(err)
		}
	})
}

// TestWorkThatReturnsWhileTheHookRunsIsInTime, and its error is not lost.
func TestWorkThatReturnsWhileTheHookRunsIsInTime(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		for _, lose := range []bool{false, true} {
			stop := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			err := p[0].e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				if cancel(); lose {
					p[0].svc.Expire(term.Session())
				}
				<-stop
				return election.Stop(errMine)
			}, election.WithDrain(time.Minute), election.WithOnOverrun(func() {
				close(stop)
				time.Sleep(time.Second)
			}))
			if !errors.Is(err, errMine) || errors.Is(err, election.ErrOverrun) {
				t.Errorf("Run = %v", err)
			}
		}
	})
}
