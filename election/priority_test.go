package election_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// prefer is runs with a priority for each party.
func prefer(all []party, s *stage, priorities ...int) (end func()) {
	var ends []func()
	for i, p := range all {
		ends = append(ends, runs([]party{p}, s, election.WithPriority(priorities[i])))
	}
	return func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
}

// TestHighestPriorityLeadsInTheEnd, once it has waited for the settling time.
// Of equal ones the first in the queue does, and stays.
func TestHighestPriorityLeadsInTheEnd(t *testing.T) {
	parties(t, 5, func(t *testing.T, p ...party) {
		var s stage
		end := prefer(p, &s, 0, 2, 1_000_000, 7, 1_000_000)
		sleep(29 * time.Second)
		if got := s.worked(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("worked: %v before the settling time", got)
		}
		sleep(time.Minute) // c came an instant after b, and is not passed over
		if got := s.worked(); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("worked: %v after the settling time", got)
		}
		sleep(time.Hour)
		if got := s.worked(); !slices.Equal(got, []string{"a", "c"}) || s.gaps[0] != 0 {
			t.Errorf("worked: %v after an hour, gaps: %v", got, s.gaps)
		}
		end()
	})
}

// TestCandidateThatDoesNotSettleNeverLeads: one that crashes soon after its
// start does not take the work down each time.
func TestCandidateThatDoesNotSettleNeverLeads(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		var s stage
		end := prefer(p[:1], &s, 0)
		for range 50 {
			endLast := runs(p[1:], &s, election.WithPriority(1))
			sleep(20 * time.Second)
			endLast()
		}
		if got := s.worked(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("worked: %v", got)
		}
		endLast := runs(p[1:], &s, election.WithPriority(1), election.WithSettle(time.Hour))
		sleep(time.Minute)
		if got := s.worked(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("worked: %v: the leader's settling time counts", got)
		}
		endLast()
		end()
	})
}

// TestLeaderWithoutPriorityStays, whatever waits: it watches no queue.
func TestLeaderWithoutPriorityStays(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		var s stage
		end := runs(p[:1], &s)
		endLast := prefer(p[1:], &s, 9)
		sleep(time.Hour)
		if got := s.worked(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("worked: %v", got)
		}
		endLast()
		end()
	})
}

// TestLeaderLearnsOfAHigherPriorityByAWatch, and reads the queue only then.
func TestLeaderLearnsOfAHigherPriorityByAWatch(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		var s stage
		end := prefer(p[:2], &s, 5, 5)
		sleep(time.Minute)
		var sent notes[memory.Op]
		p[0].svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Driver == p[0].link && r.Op != memory.OpRenew {
				sent.add(r.Op)
			}
			return f
		})
		sleep(time.Hour)
		if got := sent.get(); len(got) != 0 {
			t.Errorf("sent %v", got)
		}
		endLast := prefer(p[2:], &s, 6)
		sleep(time.Minute)
		if got := s.working(); !slices.Equal(got, []string{"c"}) {
			t.Errorf("%v work", got)
		}
		p[0].svc.OnRequest(nil)
		endLast()
		end()
	})
}

// leaders judges by the contexts of work: one may take a moment to stop.
type leaders struct {
	mu    sync.Mutex
	terms int
	name  string
	ctx   context.Context
}

func (l *leaders) begin(ctx context.Context, t *testing.T, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil && l.ctx.Err() == nil {
		t.Errorf("%s works while %s does", name, l.name)
	}
	l.terms, l.name, l.ctx = l.terms+1, name, ctx
}

// alive returns the one that leads, or "".
func (l *leaders) alive() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil || l.ctx.Err() != nil {
		return ""
	}
	return l.name
}

// TestPriorityAndTransfersConvergeAfterFaults: links fail, requests and replies
// get lost, and leaders transfer at random. Two never work, and soon after the
// faults the candidate of the highest priority does.
func TestPriorityAndTransfersConvergeAfterFaults(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			parties(t, 5, func(t *testing.T, p ...party) {
				r := rand.New(rand.NewPCG(seed, 0))
				var mu sync.Mutex // of fates: requests come from many goroutines
				fates := rand.New(rand.NewPCG(seed, 1))
				var l leaders
				var running []*runner
				for i, priority := range []int{0, 3, 1, 2, 3} {
					running = append(running, p[i].run(func(ctx context.Context, _ *election.Term) error {
						l.begin(ctx, t, p[i].name)
						<-ctx.Done()
						return ctx.Err()
					}, election.WithPriority(priority)))
				}
				p[0].svc.OnRequest(func(q memory.Request) memory.Fate {
					if q.Op == memory.OpRenew {
						return memory.Fate{}
					}
					mu.Lock()
					defer mu.Unlock()
					n := fates.IntN(20)
					return memory.Fate{DropRequest: n == 0, DropReply: n == 1}
				})
				for range 60 {
					one := p[r.IntN(len(p))]
					switch r.IntN(4) {
					case 0:
						one.link.Cut()
					case 1:
						one.link.Heal()
					default:
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						for _, other := range p {
							if term := other.e.Current(); term != nil {
								_ = term.TransferTo(ctx, one.name)
							}
						}
						cancel()
					}
					time.Sleep(time.Duration(r.IntN(10)) * time.Second)
				}
				p[0].svc.OnRequest(nil)
				for _, p := range p {
					p.link.Heal()
				}
				// A dead session, the pause before Run campaigns again, and
				// twice the settling time.
				sleep(2*coordinator.DefaultTTL + 15*time.Second + 2*30*time.Second + time.Second)
				if got := l.alive(); got != "b" && got != "e" {
					t.Errorf("%q leads, after %d terms", got, l.terms)
				}
				for _, r := range running {
					r.end()
				}
			})
		})
	}
}
