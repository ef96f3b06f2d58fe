package group_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/group"
)

var (
	errStop = errors.New("stop")
	errWork = errors.New("the work failed")
)

// runs starts Run, and returns its result.
func (s *site) runs(
	ctx context.Context, g *group.Group, value string, work func(context.Context, *group.Member) error,
) <-chan error {
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx, []byte(value), work) }()
	synctest.Wait()
	return done
}

// lists fails the test unless the members are these.
func (s *site) lists(g *group.Group, want string) {
	s.Helper()
	members, err := g.Members(s.Context())
	if got := values(members); err != nil || got != want {
		s.Errorf("the members are %q, %v; want %q", got, err, want)
	}
}

// TestRunStaysAMemberOverLosses of the session and of the entry, with the value
// of its latest update, and leaves when its context ends.
func TestRunStaysAMemberOverLosses(t *testing.T) {
	at(t, func(s *site) {
		a, link := s.group()
		b, _ := s.group()
		ctx, stop := context.WithCancelCause(s.Context())
		var tokens []coordinator.Token
		var causes []error
		done := s.runs(ctx, a, "new", func(ctx context.Context, m *group.Member) error {
			tokens = append(tokens, m.Token())
			if len(tokens) == 1 {
				if err := m.Update(ctx, []byte("ready")); err != nil {
					s.Error(err)
				}
			}
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return context.Cause(ctx)
		})
		s.lists(b, "ready")
		link.Cut()
		time.Sleep(time.Minute)
		s.lists(b, "")
		link.Heal()
		time.Sleep(5 * time.Second)
		s.lists(b, "ready")
		s.svc.Remove(queue, s.svc.Snapshot(queue)[0].Key)
		time.Sleep(5 * time.Second)
		s.lists(b, "ready")
		link.Expire()
		time.Sleep(5 * time.Second)
		s.lists(b, "ready")
		stop(errStop)
		if err := <-done; err != errStop { //nolint:errorlint // nothing else
			s.Errorf("Run: %v", err)
		}
		s.lists(b, "")
		if len(tokens) != 4 || !slices.IsSorted(tokens) {
			s.Errorf("tokens %v", tokens)
		}
		for i, want := range []error{coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrSessionLost, errStop} {
			if i >= len(causes) || !errors.Is(causes[i], want) {
				s.Errorf("causes %v", causes)
			}
		}
	})
}

// TestRunReturnsWhatItsWorkReturns, and is no member then.
func TestRunReturnsWhatItsWorkReturns(t *testing.T) {
	at(t, func(s *site) {
		a, _ := s.group()
		for _, want := range []error{nil, errWork} {
			err := a.Run(s.Context(), nil, func(context.Context, *group.Member) error { return want })
			if err != want { //nolint:errorlint // nothing else
				s.Errorf("Run: %v, want %v", err, want)
			}
			s.lists(a, "")
		}
		if err := a.Run(s.Context(), nil, func(ctx context.Context, m *group.Member) error { return m.Leave(ctx) }); err != nil {
			s.Errorf("work that leaves: %v", err)
		}
		ctx, stop := context.WithCancelCause(s.Context())
		err := a.Run(ctx, nil, func(ctx context.Context, _ *group.Member) error {
			stop(errStop)
			<-ctx.Done()
			return fmt.Errorf("work: %w", ctx.Err())
		})
		if err != errStop { //nolint:errorlint // nothing else
			s.Errorf("work that says that its context ended: %v", err)
		}
		ctx, stop = context.WithCancelCause(s.Context())
		err = a.Run(ctx, nil, func(ctx context.Context, _ *group.Member) error {
			stop(errStop)
			<-ctx.Done()
			return errWork
		})
		if !errors.Is(err, errStop) || !errors.Is(err, errWork) {
			s.Errorf("work that fails at the end: %v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = a.Run(s.Context(), nil, func(context.Context, *group.Member) error { panic("work") })
		}()
		s.lists(a, "")
	})
}

// TestRunWithoutWorkIsAMemberUntilItsContextEnds.
func TestRunWithoutWorkIsAMemberUntilItsContextEnds(t *testing.T) {
	at(t, func(s *site) {
		a, link := s.group()
		ctx, stop := context.WithTimeoutCause(s.Context(), time.Hour, errStop)
		defer stop()
		s.svc.Stop() // it is away at the start
		done := s.runs(ctx, a, "web-1", nil)
		time.Sleep(time.Minute)
		s.svc.Start()
		time.Sleep(5 * time.Second)
		s.lists(a, "web-1")
		link.Expire()
		time.Sleep(5 * time.Second)
		s.lists(a, "web-1")
		if err := <-done; err != errStop { //nolint:errorlint // nothing else
			s.Errorf("Run: %v", err)
		}
		s.lists(a, "")
	})
}

// TestRunEndsIfItCannotJoin.
func TestRunEndsIfItCannotJoin(t *testing.T) {
	at(t, func(s *site) {
		a, _ := s.group()
		err := a.Run(s.Context(), make([]byte, group.MaxValue+1), nil)
		if !errors.Is(err, coordinator.ErrInvalid) {
			s.Errorf("a value that is too long: %v", err)
		}
		ended, stop := context.WithCancelCause(s.Context())
		stop(errStop)
		if err := a.Run(ended, nil, nil); !errors.Is(err, errStop) {
			s.Errorf("a context that has ended: %v", err)
		}
		done := s.runs(s.Context(), a, "x", nil)
		if err := s.clients[0].Close(s.Context()); err != nil {
			s.Error(err)
		}
		if err := <-done; !errors.Is(err, coordinator.ErrClosed) {
			s.Errorf("a client that was closed: %v", err)
		}
		if err := a.Run(s.Context(), nil, nil); !errors.Is(err, coordinator.ErrClosed) {
			s.Errorf("a closed client: %v", err)
		}
	})
}

// TestMembersRunUnderFaults: random faults of the network, the sessions and the
// service. After them all members are listed, with their latest values, and an
// observer sees that.
func TestMembersRunUnderFaults(t *testing.T) {
	for seed := range uint64(60) {
		at(t, func(s *site) {
			r := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return r.IntN(n)
			}
			ctx, stop := context.WithCancelCause(s.Context())
			var links []*memory.Driver
			var all []<-chan error
			n := 2 + roll(4)
			var over atomic.Bool // the faults
			for i := range n {
				g, link := s.group()
				links = append(links, link)
				all = append(all, s.runs(ctx, g, "new", func(ctx context.Context, m *group.Member) error {
					for !over.Load() && ctx.Err() == nil {
						time.Sleep(time.Duration(roll(3000)) * time.Millisecond)
						_ = m.Update(ctx, []byte(fmt.Sprint(i, " at ", roll(1000))))
					}
					for ctx.Err() == nil && m.Update(ctx, []byte(fmt.Sprint(i))) != nil {
						time.Sleep(time.Second)
					}
					<-ctx.Done()
					return nil
				}))
			}
			watcher, _ := s.group()
			seen := ""
			observing, unobserve := context.WithCancel(s.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				for members, err := range watcher.Observe(observing) {
					if err == nil {
						mu.Lock()
						seen = values(members)
						mu.Unlock()
					}
				}
			})
			rate := 5 + roll(50)
			s.svc.OnRequest(func(memory.Request) memory.Fate {
				if roll(rate) > 0 {
					return memory.Fate{}
				}
				late := time.Duration(1<<roll(13)) * time.Millisecond
				return []memory.Fate{{DropReply: true}, {DropRequest: true}, {DelayReply: late},
					{DelayRequest: late}, {Err: driver.ErrUnavailable}}[roll(5)]
			})
			for range 20 {
				link := links[roll(len(links))]
				[]func(){link.Cut, link.HoldReplies, link.HoldRequests, func() { link.Expire() }, link.Reset, s.svc.Stop}[roll(6)]()
				time.Sleep(time.Duration(roll(15_000)) * time.Millisecond)
				s.svc.Start()
				if roll(3) > 0 {
					link.Heal()
				}
			}
			s.svc.OnRequest(nil)
			for _, link := range links {
				link.Heal()
			}
			over.Store(true)
			time.Sleep(30 * time.Second)
			members, err := watcher.Members(s.Context())
			var got []string
			for _, m := range members {
				got = append(got, string(m.Value))
			}
			if slices.Sort(got); err != nil || len(got) != n || strings.Join(got, " ") != "0 1 2 3 4 5"[:2*n-1] {
				s.Errorf("seed %d: the members are %q, %v", seed, got, err)
			}
			mu.Lock()
			if seen != values(members) {
				s.Errorf("seed %d: the observer has seen %q, not %q", seed, seen, values(members))
			}
			mu.Unlock()
			stop(errStop)
			for _, done := range all {
				if err := <-done; !errors.Is(err, errStop) {
					s.Errorf("seed %d: Run: %v", seed, err)
				}
			}
			unobserve()
			wg.Wait()
		})
		if t.Failed() {
			return
		}
	}
}
