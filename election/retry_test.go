package election_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

func TestClosedClientEndsRun(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		var s stage
		noErrors := election.WithOnError(func(err error) { t.Errorf("reported %v", err) })
		leading, waiting := p[0].run(p[0].until(&s), noErrors), p[1].run(p[1].until(&s), noErrors)
		began := time.Now()
		_ = p[1].client.Close(t.Context())
		_ = p[0].client.Close(t.Context())
		for _, r := range []*runner{leading, waiting} {
			if err := r.ended(); !errors.Is(err, coordinator.ErrClosed) {
				t.Errorf("Run = %v", err)
			}
		}
		if got := s.worked(); !slices.Equal(got, []string{"a"}) || time.Since(began) != 0 {
			t.Errorf("worked: %v, ended after %v", got, time.Since(began))
		}
	})
}

// TestClosedClientEndsThePause, with and without a live session.
func TestClosedClientEndsThePause(t *testing.T) {
	for _, lose := range []bool{false, true} {
		parties(t, 1, func(t *testing.T, p ...party) {
			a := p[0]
			terms := 0
			var reported notes[error]
			r := a.run(func(_ context.Context, term *election.Term) error {
				if terms++; lose {
					a.svc.Expire(term.Session())
					<-term.Context().Done()
				}
				return election.ErrStepDown
			}, election.WithPause(time.Hour, time.Hour), election.WithOnError(reported.add))
			sleep(time.Minute)
			if errs := reported.get(); lose && (len(errs) != 1 ||
				!errors.Is(errs[0], coordinator.ErrSessionLost)) || !lose && len(errs) != 0 {
				t.Errorf("reported %v", errs)
			}
			began := time.Now()
			_ = a.client.Close(t.Context())
			if err := r.ended(); !errors.Is(err, coordinator.ErrClosed) || time.Since(began) != 0 ||
				terms != 1 {
				t.Errorf("Run = %v after %v and %d terms", err, time.Since(began), terms)
			}
		})
	}
}

// TestReportOfAnOutageMayEndTheCampaign: the callback ends Run's context or
// closes the client while the campaign waits for an answer, or for the session;
// Run returns.
func TestReportOfAnOutageMayEndTheCampaign(t *testing.T) {
	for _, joining := range []bool{false, true} {
		for _, closing := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				a := join(t, memory.NewService(), "a")
				defer a.client.Close(t.Context()) // fails while the service is away
				if joining {
					_ = a.session()
				}
				a.svc.Stop()
				ctx, cancel := context.WithCancelCause(t.Context())
				want, calls := errMine, 0
				end := func() { cancel(errMine) }
				if closing {
					want, end = coordinator.ErrClosed, func() { _ = a.client.Close(ctx) }
				}
				err := a.e.Run(ctx, func(context.Context, *election.Term) error { return nil },
					election.WithOnError(func(error) {
						if calls++; calls == 1 { // not a race: calls do not overlap
							end()
						}
					}))
				if !errors.Is(err, want) || calls == 0 {
					t.Errorf("joining %v, closing %v: Run = %v after %d calls", joining, closing, err, calls)
				}
			})
		}
	}
}

// TestBlockedReportOfAnOutageDelaysNoTerm: a candidate that waited for its own
// callback would keep all others waiting. Calls still do not overlap.
func TestBlockedReportOfAnOutageDelaysNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a := join(t, svc, "a")
		svc.Stop()
		var s stage
		var running, calls atomic.Int32
		h := new(election.Health)
		r := a.run(a.until(&s), election.WithHealth(h), election.WithOnError(func(error) {
			if calls.Add(1); running.Add(1) != 1 {
				t.Error("calls overlap")
			}
			time.Sleep(5 * time.Minute)
			running.Add(-1)
		}))
		sleep(time.Minute)
		check(t, h, 503, "no answer since", 200, "ok")
		svc.Start()
		sleep(time.Minute)
		if !slices.Equal(s.working(), []string{"a"}) || calls.Load() != 1 {
			t.Errorf("%v work, %d calls", s.working(), calls.Load())
		}
		check(t, h, 200, "leading", 200, "ok")
		a.svc.Expire(a.session().ID()) // reported after the first call
		sleep(time.Minute)
		if len(s.working()) != 0 || calls.Load() != 1 {
			t.Errorf("%v work, %d calls", s.working(), calls.Load())
		}
		sleep(10 * time.Minute)
		if !slices.Equal(s.working(), []string{"a"}) || calls.Load() != 2 {
			t.Errorf("%v work, %d calls", s.working(), calls.Load())
		}
		r.end()
		_ = a.client.Close(t.Context())
	})
}

// TestUnavailableServiceIsReported once per outage, and the campaign continues.
// FIELD 76.
func TestUnavailableServiceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out notes[string]
		svc := memory.NewService()
		a := join(t, svc, "a", coordinator.WithLogger(
			slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		svc.Stop()
		h := new(election.Health)
		var reported notes[error]
		var s stage
		r := a.run(a.until(&s), election.WithOnError(reported.add), election.WithHealth(h))
		began := time.Now()
		check(t, h, 503, "candidate", 200, "ok")
		sleep(9 * time.Second)
		if errs := reported.get(); len(errs) != 0 {
			t.Errorf("reported %v at once", errs)
		}
		sleep(time.Hour)
		since := began.Format(time.RFC3339)
		if errs := reported.get(); len(errs) != 1 || !errors.Is(errs[0], coordinator.ErrUnavailable) ||
			!strings.Contains(errs[0].Error(), since) {
			t.Errorf("reported %v, want the outage since %s", errs, since)
		}
		if got := strings.Join(out.get(), ""); strings.Count(got, "no answer since "+since) != 1 {
			t.Errorf("logged %s", got)
		}
		check(t, h, 503, since, 200, "ok")
		svc.Start()
		sleep(time.Second)
		check(t, h, 200, "leading", 200, "ok")
		svc.Stop() // an outage after the grant
		sleep(time.Hour)
		if errs := reported.get(); len(errs) != 3 || !errors.Is(errs[1], coordinator.ErrSessionLost) ||
			!errors.Is(errs[2], coordinator.ErrUnavailable) {
			t.Errorf("reported %v", errs)
		}
		check(t, h, 503, "no answer since", 200, "ok")
		svc.Start()
		sleep(20 * time.Second) // the service keeps the old session for that long
		if !slices.Equal(s.working(), []string{"a"}) {
			t.Errorf("%v work", s.working())
		}
		r.end()
		_ = a.client.Close(t.Context())
	})
}

// TestFailureIsShownUntilTheCandidateIsQueued, not only until the next campaign
// begins.
func TestFailureIsShownUntilTheCandidateIsQueued(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := b.campaign()
		h := new(election.Health)
		r := a.run(idle, election.WithHealth(h))
		check(t, h, 503, "not leading: candidate", 200, "ok")
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropRequest: r.Driver == a.link && r.Op == memory.OpJoin}
		})
		a.svc.Expire(a.session().ID())
		sleep(5 * time.Second)
		check(t, h, 503, "session lost", 200, "ok")
		a.svc.OnRequest(nil)
		sleep(time.Minute)
		check(t, h, 503, "not leading: candidate", 200, "ok")
		b.resign(term)
		r.end()
	})
}

// TestShortTermsBackOff: an operator's script, or a network, ends every term as
// soon as it has begun.
func TestShortTermsBackOff(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		var flapping atomic.Bool
		flapping.Store(true)
		var began notes[time.Time]
		r := a.run(func(ctx context.Context, term *election.Term) error {
			began.add(time.Now())
			if flapping.Load() {
				a.svc.Expire(term.Session())
			}
			<-ctx.Done()
			return nil
		})
		sleep(10 * time.Minute)
		terms := began.get()
		// Pauses of 0.1, 0.2, 0.4 … 10 s, each ± 50 %: about 60 terms in ten
		// minutes, and 6 more at first.
		if n := len(terms); n < 40 || n > 140 {
			t.Errorf("%d terms in ten minutes", n)
		}
		for i, want := range []time.Duration{100, 200, 400, 800, 1600} {
			pause, want := terms[i+1].Sub(terms[i]), want*time.Millisecond
			if pause < want/2 || pause > want*3/2 {
				t.Errorf("pause %d is %v, want %v ± 50 %%", i, pause, want)
			}
		}
		flapping.Store(false)
		sleep(time.Minute) // one long term
		last := len(began.get())
		a.svc.Expire(a.session().ID())
		sleep(200 * time.Millisecond)
		if len(began.get()) != last+1 {
			t.Error("the pause after a long term is not the first one")
		}
		r.end()
	})
}

// TestRefusedCampaignsBackOff: a campaign that is refused costs the service an
// attempt each time, so the pauses grow to the longest and stay there. The
// pause itself is no time of success.
func TestRefusedCampaignsBackOff(t *testing.T) {
	for _, op := range []memory.Op{memory.OpOpen, memory.OpJoin} {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService()
			a := join(t, svc, "a")
			svc.OnRequest(func(r memory.Request) (f memory.Fate) {
				if r.Op == op {
					f.Err = driver.Wrap(driver.ErrRefused, errors.New("wrong password"))
				}
				return f
			})
			var reported notes[error]
			r := a.run(idle, election.WithOnError(reported.add))
			sleep(time.Hour)
			first := len(reported.get())
			sleep(time.Hour)
			// One each ten seconds, ± 50 %, is 360; with the first pause of 100
			// ms now and then it is more.
			if n := len(reported.get()) - first; n < 320 || n > 400 {
				t.Errorf("%s: %d attempts in the second hour", op, n)
			}
			r.stop(errMine)
			_ = r.ended()
			svc.OnRequest(nil)
			_ = a.client.Close(t.Context())
		})
	}
}

func TestPausesCanBeChosenAndInterrupted(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		r := a.run(func(context.Context, *election.Term) error { return election.ErrStepDown },
			election.WithPause(time.Hour, time.Hour))
		began := time.Now()
		r.stop(errMine)
		if err := r.ended(); err != errMine || time.Since(began) != 0 { //nolint:errorlint // itself
			t.Errorf("Run = %v after %v", err, time.Since(began))
		}
	})
}

// TestRefusedCampaignIsLoggedReportedAndRepeated. FIELD 76: a start that can
// never elect must be observable.
func TestRefusedCampaignIsLoggedReportedAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out notes[string]
		svc := memory.NewService()
		a := join(t, svc, "a", coordinator.WithLogger(
			slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		refuse := func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin {
				return memory.Fate{Err: driver.Wrap(driver.ErrRefused, errors.New("no permission"))}
			}
			return memory.Fate{}
		}
		svc.OnRequest(refuse)
		var reported notes[error]
		var s stage
		r := a.run(a.until(&s), election.WithOnError(reported.add))
		sleep(time.Minute)
		if errs := reported.get(); len(errs) < 5 || len(errs) > 20 ||
			!errors.Is(errs[0], coordinator.ErrRefused) {
			t.Errorf("reported %d times: %v", len(errs), errs)
		}
		if got := out.get(); len(got) < 5 || !strings.Contains(got[0], "no permission") ||
			!strings.Contains(got[0], "election=jobs") {
			t.Errorf("logged: %s", got)
		}
		svc.OnRequest(nil)
		time.Sleep(20 * time.Second)
		if !slices.Equal(s.working(), []string{"a"}) {
			t.Error("not elected when the service allows it again")
		}
		r.end()
		_ = a.client.Close(t.Context())
	})
}

// TestLongestPauseIsNoShortOne: a pause that means "never again" does not
// overflow when it varies.
func TestLongestPauseIsNoShortOne(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			terms := 0
			_ = p[0].e.Run(ctx, func(context.Context, *election.Term) error {
				terms++
				return election.ErrStepDown
			}, election.WithPause(math.MaxInt64, math.MaxInt64))
			if cancel(); terms != 1 {
				t.Errorf("%d terms in an hour", terms)
			}
		}
	})
}
