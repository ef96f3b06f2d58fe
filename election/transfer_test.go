package election_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// record is the queue that has the record of a transfer.
const record = driver.Queue("election-next/jobs")

// queued returns the identities in the queue, the leader first.
func (p party) queued() (all []string) {
	p.Helper()
	candidates, err := p.e.Candidates(p.Context())
	must(p, err)
	for _, c := range candidates {
		all = append(all, c.Identity)
	}
	return all
}

// toStop is how long the work of runs takes to stop: less than the tenth of the
// TTL after which a lost term may overlap.
const toStop = 500 * time.Millisecond

// runs starts Run of all parties, in order. They wait for a minute before they
// campaign again.
func runs(all []party, s *stage, opts ...election.RunOption) (end func()) {
	var running []*runner
	for _, p := range all {
		running = append(running, p.run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(p, term)()
			<-ctx.Done()
			time.Sleep(toStop)
			return ctx.Err()
		}, append(opts, election.WithPause(time.Minute, time.Minute))...))
	}
	return func() {
		for _, r := range running {
			r.stop(nil)
		}
		for _, r := range running {
			<-r.done
		}
	}
}

// TestTransferLetsTheCandidateLeadNext: those ahead of it let it pass, and
// their work is not called. By the leader itself, and by any process.
func TestTransferLetsTheCandidateLeadNext(t *testing.T) {
	for name, transfer := range map[string]func(leader party, other party) error{
		"leader": func(leader, _ party) error {
			return leader.e.Current().TransferTo(leader.Context(), "d")
		},
		"another process": func(_, other party) error { return other.e.Transfer(other.Context(), "d") },
	} {
		t.Run(name, func(t *testing.T) {
			parties(t, 6, func(t *testing.T, p ...party) {
				var s stage
				end := runs(p[:5], &s)
				term := p[0].e.Current()
				began := time.Now()
				must(t, transfer(p[0], p[5]))
				if name == "leader" {
					if term.Err() != nil || time.Since(began) != 0 {
						t.Errorf("TransferTo took %v; the term during the drain: %v", time.Since(began), term.Err())
					}
					sleep(toStop)
				} else if took := time.Since(began); took != toStop {
					t.Errorf("Transfer took %v, want the drain", took)
				}
				sleep(0)
				if got := s.worked(); !slices.Equal(got, []string{"a", "d"}) {
					t.Errorf("worked: %v", got)
				}
				if got := p[5].queued(); len(got) != 4 || got[0] != "d" || got[1] != "e" {
					t.Errorf("queued: %v", got)
				}
				if len(s.gaps) != 1 || s.gaps[0] != 0 {
					t.Errorf("nobody worked for %v", s.gaps)
				}
				end()
				if s.overlap > 0 {
					t.Error("two worked")
				}
			})
		})
	}
}

// TestTransferOfATermWithoutRunResigns.
func TestTransferOfATermWithoutRunResigns(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		term := p[0].campaign()
		b, c := p[1].enqueue(t.Context()), p[2].enqueue(t.Context())
		must(t, term.TransferTo(t.Context(), "c"))
		if !errors.Is(term.Err(), coordinator.ErrReleased) {
			t.Errorf("the old term: %v", term.Err())
		}
		if err := term.TransferTo(t.Context(), "c"); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("the second transfer = %v", err)
		}
		p[2].resign(c.won(t))
		p[1].resign(b.won(t))
	})
}

// TestTransferToNobodyIsRefused, and the leader leads on.
func TestTransferToNobodyIsRefused(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		if err := b.e.Transfer(t.Context(), "a"); !errors.Is(err, election.ErrNoCandidate) {
			t.Errorf("Transfer of an empty election = %v", err)
		}
		var s stage
		end := runs(p[:1], &s)
		for _, err := range []error{a.e.Current().TransferTo(t.Context(), "b"),
			a.e.Current().TransferTo(t.Context(), "a"), b.e.Transfer(t.Context(), "b")} {
			if !errors.Is(err, election.ErrNoCandidate) {
				t.Errorf("transfer = %v", err)
			}
		}
		must(t, b.e.Transfer(t.Context(), "a")) // it leads
		sleep(time.Minute)
		if got := s.working(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%v work", got)
		}
		end()
	})
}

// TestTransferToACandidateThatVanishesLetsTheFirstLead: at once if it leaves,
// and after a TTL if it dies. There is one leader at any time.
func TestTransferToACandidateThatVanishesLetsTheFirstLead(t *testing.T) {
	for name, vanish := range map[string]func(d party, leave func()){
		"leaves": func(_ party, leave func()) { leave() },
		"dies":   func(d party, _ func()) { d.link.Cut() },
	} {
		for _, when := range []time.Duration{0, toStop / 2, 2 * time.Second} {
			t.Run(name, func(t *testing.T) {
				parties(t, 5, func(t *testing.T, p ...party) {
					var s stage
					end := runs([]party{p[0], p[1], p[2]}, &s)
					ctx, cancel := context.WithCancel(t.Context())
					d := p[3].enqueue(ctx)
					endLast := runs(p[4:], &s)
					must(t, p[0].e.Current().TransferTo(t.Context(), "d"))
					time.Sleep(when)
					vanish(p[3], cancel)
					sleep(2*coordinator.DefaultTTL + 2*time.Second)
					got := s.working()
					if term := p[3].e.Current(); term != nil {
						if len(got) != 0 || when < 2*time.Second || name != "leaves" {
							t.Errorf("%v work beside the candidate", got)
						}
						p[3].resign(term)
						sleep(0)
						got = s.working()
					}
					if len(got) != 1 {
						t.Errorf("%v work", got)
					}
					if when < time.Second && name == "leaves" && got[0] != "b" {
						t.Errorf("%v leads, want the first", got)
					}
					cancel()
					p[3].link.Heal()
					<-d.done
					end()
					endLast()
				})
			})
		}
	}
}

// TestHandoverReadsNoRecord: only a candidate that was not handed over has to
// know whether another one is next.
func TestHandoverReadsNoRecord(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		var sent notes[memory.Op]
		p[0].svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Queue == record {
				sent.add(r.Op)
			}
			return f
		})
		for range 10 {
			term := p[0].campaign()
			b := p[1].enqueue(t.Context())
			p[0].resign(term)
			p[1].resign(b.won(t))
		}
		if got := sent.get(); len(got) != 0 {
			t.Errorf("sent %v", got)
		}
		term := p[0].campaign()
		b := p[1].enqueue(t.Context())
		p[0].svc.Expire(term.Session())
		p[1].resign(b.won(t))
		if got := sent.get(); len(got) != 1 {
			t.Errorf("after a loss: sent %v", got)
		}
		p[0].svc.OnRequest(nil)
	})
}

// TestRecordThatCannotBeReadKeepsNobodyFromLeading.
func TestRecordThatCannotBeReadKeepsNobodyFromLeading(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		var s stage
		end := runs(p, &s)
		p[0].svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Queue == record {
				f.Err = driver.Wrap(driver.ErrRefused, errors.New("no permission"))
			}
			return f
		})
		if err := p[0].e.Current().TransferTo(t.Context(), "c"); !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("TransferTo = %v", err)
		}
		p[0].link.Cut()
		sleep(2 * coordinator.DefaultTTL)
		if got := s.working(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%v work", got)
		}
		p[0].svc.OnRequest(nil)
		p[0].link.Heal()
		end()
	})
}

// TestTransferDuringTheDrainCounts: a process that was told to stop may still
// choose its successor.
func TestTransferDuringTheDrainCounts(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		var s stage
		r := p[0].run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(p[0], term)()
			<-ctx.Done()
			return term.TransferTo(p[0].Context(), "c")
		})
		end := runs(p[1:], &s)
		r.stop(errMine)
		if err := r.ended(); err != errMine { //nolint:errorlint // itself
			t.Errorf("Run = %v", err)
		}
		sleep(0)
		if got := s.working(); !slices.Equal(got, []string{"c"}) {
			t.Errorf("%v work", got)
		}
		end()
	})
}
