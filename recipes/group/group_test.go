package group_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/baton-go/baton/internal/bubble"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
)

const queue = driver.Queue("group/workers")

// site is a service in virtual time, and what was opened to it.
type site struct {
	*testing.T
	svc     *memory.Service
	clients []*coordinator.Client
}

func at(t *testing.T, f func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, svc: memory.NewService()}
		f(s)
		for _, c := range s.clients {
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		time.Sleep(10 * time.Second) // the TTL of sessions that opened after a cut
		synctest.Wait()
		if stats := s.svc.Stats(); stats.Entries+stats.Watches+stats.Sessions > 0 {
			t.Errorf("left at the service: %+v", stats)
		}
	})
}

// group returns the group on a client of its own, and its link.
func (s *site) group(opts ...group.Option) (*group.Group, *memory.Driver) {
	s.Helper()
	link := s.svc.Driver()
	return s.groupOn(link, opts...), link
}

func (s *site) groupOn(d driver.Driver, opts ...group.Option) *group.Group {
	s.Helper()
	c, err := coordinator.New(d, coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		s.Fatal(err)
	}
	s.clients = append(s.clients, c)
	bubble.EndIfFailed(s, d, c)
	g, err := group.New(c, "workers", opts...)
	if err != nil {
		s.Fatal(err)
	}
	return g
}

func (s *site) join(g *group.Group, value string) *group.Member {
	s.Helper()
	m, err := g.Join(s.Context(), []byte(value))
	if err != nil {
		s.Fatal(err)
	}
	return m
}

func values(members []group.Info) string {
	var all []string
	for _, m := range members {
		all = append(all, string(m.Value))
	}
	return strings.Join(all, " ")
}

// observer keeps what an observer yields.
type observer struct {
	mu     sync.Mutex
	states []string
	err    error
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *site) observe(g *group.Group) *observer {
	ctx, cancel := context.WithCancel(s.Context())
	o := &observer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		for members, err := range g.Observe(ctx) {
			o.mu.Lock()
			if err != nil {
				o.err = err
			} else {
				o.states = append(o.states, values(members))
			}
			o.mu.Unlock()
		}
	}()
	return o
}

// last returns the latest state, once all is quiet.
func (o *observer) last() string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.states) == 0 {
		return "nothing"
	}
	return o.states[len(o.states)-1]
}

// TestMembersAreListedAndObserved: joins, updates and leaves in order.
func TestMembersAreListedAndObserved(t *testing.T) {
	at(t, func(s *site) {
		g, _ := s.group()
		watcher, _ := s.group()
		o := s.observe(watcher)
		expect := func(want string) {
			t.Helper()
			if got := o.last(); got != want {
				t.Errorf("observed %q, want %q", got, want)
			}
			members, err := watcher.Members(s.Context())
			if err != nil || values(members) != want {
				t.Errorf("listed %q, %v, want %q", values(members), err, want)
			}
		}
		expect("")
		a := s.join(g, "a")
		expect("a")
		b := s.join(g, "b")
		expect("a b")
		if a.Token() >= b.Token() {
			t.Errorf("tokens %v, %v", a.Token(), b.Token())
		}
		if err := a.Update(s.Context(), []byte("c")); err != nil {
			t.Fatal(err)
		}
		expect("c b")
		if err := a.Leave(s.Context()); err != nil {
			t.Fatal(err)
		}
		expect("b")
		if err := a.Leave(s.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("second leave: %v", err)
		}
		if err := a.Err(); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("after leave: %v", err)
		}
		if err := b.Leave(s.Context()); err != nil {
			t.Fatal(err)
		}
		expect("")
		o.cancel()
		<-o.done
		if !errors.Is(o.err, context.Canceled) {
			t.Errorf("the end of an observer: %v", o.err)
		}
	})
}

// TestCrashedMemberIsGoneWithinTheTTL: a silent member is told before it is
// removed, and observers are told then.
func TestCrashedMemberIsGoneWithinTheTTL(t *testing.T) {
	at(t, func(s *site) {
		g, link := s.group()
		watcher, _ := s.group()
		o := s.observe(watcher)
		m := s.join(g, "a")
		if got := o.last(); got != "a" {
			t.Fatalf("observed %q", got)
		}
		link.Cut()
		began := time.Now()
		<-m.Context().Done()
		if cause := context.Cause(m.Context()); !errors.Is(cause, coordinator.ErrSessionLost) {
			t.Errorf("cause %v", cause)
		}
		if got := o.last(); got != "a" {
			t.Errorf("removed before the member was told: %q", got)
		}
		for o.last() != "" {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("observed %q after %v", o.last(), time.Since(began))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 10*time.Second+200*time.Millisecond { // the TTL
			t.Errorf("gone after %v", took)
		}
		link.Heal()
		again := s.join(g, "b")
		if got := o.last(); got != "b" {
			t.Errorf("observed %q", got)
		}
		if err := again.Leave(s.Context()); err != nil {
			t.Error(err)
		}
		o.cancel()
		<-o.done
	})
}

// TestObserverCostsTwoWatches: whatever the number of members; a change costs
// each observer one listing, and wakes nobody else.
func TestObserverCostsTwoWatches(t *testing.T) {
	at(t, func(s *site) {
		g, own := s.group()
		var members []*group.Member
		for i := range 20 {
			members = append(members, s.join(g, fmt.Sprint(i)))
		}
		const observers = 5
		var all []*observer
		var links []*memory.Driver
		for range observers {
			w, link := s.group()
			links = append(links, link)
			all = append(all, s.observe(w))
		}
		time.Sleep(time.Second) // the members watch their own entries by then
		synctest.Wait()
		for _, link := range links {
			if stats := link.Stats(); stats.Watches != 2 {
				t.Errorf("an observer has %d watches", stats.Watches)
			}
		}
		for _, change := range []func() error{
			func() error { return members[7].Leave(s.Context()) },
			func() error { return members[8].Update(s.Context(), []byte("x")) },
		} {
			var before []memory.Stats
			whole, mine := s.svc.Stats(), own.Stats()
			for _, link := range links {
				before = append(before, link.Stats())
			}
			if err := change(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for i, link := range links {
				since := link.Stats().Since(before[i])
				if since.Requests[memory.OpList] != 1 || since.Wakeups != 1 || since.Watches != 2 {
					t.Errorf("an observer: %+v", since)
				}
			}
			// the watch of its own entry tells a member that it has left
			woken := s.svc.Stats().Since(whole).Wakeups - own.Stats().Since(mine).Wakeups
			if woken != observers || own.Stats().Since(mine).Wakeups > 1 {
				t.Errorf("%d wake-ups for %d observers", woken, observers)
			}
		}
		for _, o := range all {
			o.cancel()
			<-o.done
		}
	})
}

// TestJoinCostsFourRequests: join, a read of the queue, and a read and a write
// of the record.
func TestJoinCostsFourRequests(t *testing.T) {
	at(t, func(s *site) {
		g, link := s.group()
		first := s.join(g, "a")
		before := link.Stats()
		s.join(g, "b")
		if n := link.Stats().Since(before).Total(); n != 4 {
			t.Errorf("%d requests: %v", n, link.Stats().Since(before).Requests)
		}
		before = link.Stats()
		if err := first.Leave(s.Context()); err != nil {
			t.Fatal(err)
		}
		if n := link.Stats().Since(before).Total(); n != 1 {
			t.Errorf("leave: %v", link.Stats().Since(before).Requests)
		}
	})
}

// TestJoinersAtOnceAreAllObserved: their writes of the record overtake each
// other.
func TestJoinersAtOnceAreAllObserved(t *testing.T) {
	at(t, func(s *site) {
		watcher, _ := s.group()
		o := s.observe(watcher)
		var wg sync.WaitGroup
		for i := range 20 {
			g, link := s.group()
			link.Delay(time.Duration(i%5)*time.Millisecond, time.Duration(i%3)*time.Millisecond)
			wg.Go(func() { s.join(g, "m") })
		}
		wg.Wait()
		if got := o.last(); got != strings.TrimSpace(strings.Repeat("m ", 20)) {
			t.Errorf("observed %q", got)
		}
		o.cancel()
		<-o.done
	})
}

// TestJoinCancelledAtAnyStepLeavesNothing: the context ends while each of the
// requests of a join is under way; a member is then either there, or soon gone.
func TestJoinCancelledAtAnyStepLeavesNothing(t *testing.T) {
	steps := 0
	for ms := time.Duration(1); ms < 100; ms += 5 {
		at(t, func(s *site) {
			g, link := s.group()
			s.join(g, "other") // opens the session
			link.Delay(10*time.Millisecond, 10*time.Millisecond)
			ctx, cancel := context.WithTimeoutCause(s.Context(), ms*time.Millisecond, errors.New("enough"))
			defer cancel()
			m, err := g.Join(ctx, []byte("a"))
			if err == nil {
				if err := m.Leave(s.Context()); err != nil {
					t.Error(err)
				}
			} else if steps++; m != nil {
				t.Error("a member and an error")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if left := s.svc.Snapshot(queue); len(left) != 1 {
				t.Errorf("after %v: %d entries, %v", ms, len(left), err)
			}
		})
	}
	if steps < 10 {
		t.Errorf("only %d joins were cancelled", steps)
	}
}

// TestJoinEndsWithItsContext, also when the service stops to answer at one of
// its steps.
func TestJoinEndsWithItsContext(t *testing.T) {
	for ms := time.Duration(1); ms < 100; ms += 5 {
		at(t, func(s *site) {
			g, link := s.group()
			s.join(g, "other") // opens the session
			link.Delay(10*time.Millisecond, 10*time.Millisecond)
			ctx, cancel := context.WithTimeout(s.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			cut := time.AfterFunc(ms*time.Millisecond, link.Cut)
			m, err := g.Join(ctx, []byte("a"))
			cut.Stop()
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("cut off after %v: returned %v after %v", ms*time.Millisecond, err, took)
			}
			link.Heal()
			if err == nil {
				if err := m.Leave(s.Context()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(5 * time.Second)
			if left := s.svc.Snapshot(queue); len(left) != 1 {
				t.Errorf("cut off after %v: %d entries, %v", ms*time.Millisecond, len(left), err)
			}
		})
	}
}

// TestFaultsOfObserver: an observer goes on after a lost session, a broken
// connection, and an outage.
func TestFaultsOfObserver(t *testing.T) {
	for name, fault := range map[string]func(*memory.Service, *memory.Driver){
		"expire": func(_ *memory.Service, d *memory.Driver) { d.Expire() },
		"reset":  func(_ *memory.Service, d *memory.Driver) { d.Reset() },
		"cut": func(_ *memory.Service, d *memory.Driver) {
			d.Cut()
			time.Sleep(30 * time.Second)
			d.Heal()
		},
		"outage": func(svc *memory.Service, _ *memory.Driver) {
			svc.Stop()
			time.Sleep(3 * time.Second)
			svc.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, func(s *site) {
				watcher, link := s.group()
				o := s.observe(watcher)
				g, _ := s.group()
				s.join(g, "a")
				synctest.Wait()
				fault(s.svc, link)
				b := s.join(g, "b")
				time.Sleep(5 * time.Second)
				if got := o.last(); got != "a b" {
					t.Errorf("observed %q", got)
				}
				if err := b.Leave(s.Context()); err != nil {
					t.Error(err)
				}
				if got := o.last(); got != "a" {
					t.Errorf("observed %q", got)
				}
				o.cancel()
				<-o.done
			})
		})
	}
}

// TestRemovedMemberIsTold: an operator ends a membership.
func TestRemovedMemberIsTold(t *testing.T) {
	at(t, func(s *site) {
		g, _ := s.group()
		m := s.join(g, "a")
		time.Sleep(time.Second)
		s.svc.Remove(queue, s.svc.Snapshot(queue)[0].Key)
		<-m.Context().Done()
		if err := m.Err(); !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("removed member: %v", err)
		}
		if err := m.Update(s.Context(), []byte("b")); !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("update: %v", err)
		}
		err := m.Leave(m.Context()) // a context that has ended with the same cause
		if !errors.Is(err, coordinator.ErrRemoved) || !strings.Contains(err.Error(), `leave "workers"`) {
			t.Errorf("leave: %v", err)
		}
	})
}

// TestUpdateThatFailsAfterItsWriteSaysSo: listings show the new value.
func TestUpdateThatFailsAfterItsWriteSaysSo(t *testing.T) {
	at(t, func(s *site) {
		g, _ := s.group()
		m := s.join(g, "a")
		for _, op := range []memory.Op{memory.OpRecord, memory.OpSetRecord} {
			s.svc.OnRequest(memory.Once(op, memory.Fate{Err: driver.ErrRefused}))
			err := m.Update(s.Context(), []byte(op))
			if !errors.Is(err, coordinator.ErrRefused) || !coordinator.MayHaveApplied(err) {
				t.Errorf("%s: %v", op, err)
			}
			if all, err := g.Members(s.Context()); err != nil || values(all) != string(op) {
				t.Errorf("%s: listed %q, %v", op, values(all), err)
			}
		}
	})
}

// TestForeignEntriesAreNoMembers, neither in a list nor for an observer.
func TestForeignEntriesAreNoMembers(t *testing.T) {
	at(t, func(s *site) {
		foreign := s.svc.AddForeign(queue)
		g, _ := s.group()
		o := s.observe(g)
		m := s.join(g, "a")
		if got := o.last(); got != "a" {
			t.Errorf("observed %q", got)
		}
		s.svc.Remove(queue, foreign.Key)
		if err := m.Leave(s.Context()); err != nil {
			t.Error(err)
		}
		if got := o.last(); got != "" {
			t.Errorf("observed %q", got)
		}
		o.cancel()
		<-o.done
	})
}

// TestAwaitLeaveWaitsForOneMember: others do not end it; it returns at once for
// a token that is no member's.
func TestAwaitLeaveWaitsForOneMember(t *testing.T) {
	at(t, func(s *site) {
		g, _ := s.group()
		w, link := s.group()
		a, b := s.join(g, "a"), s.join(g, "b")
		done := make(chan error, 1)
		go func() { done <- w.AwaitLeave(s.Context(), a.Token()) }()
		synctest.Wait()
		before := link.Stats()
		if err := b.Leave(s.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := link.Stats().Since(before).Wakeups; n != 0 {
			t.Errorf("%d wake-ups", n)
		}
		link.Expire() // of the waiter, which goes on
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("returned %v", err)
		default:
		}
		if err := a.Leave(s.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.AwaitLeave(s.Context(), a.Token()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancelCause(s.Context())
		enough := errors.New("enough")
		c := s.join(g, "c")
		time.AfterFunc(time.Second, func() { cancel(enough) })
		if err := w.AwaitLeave(ctx, c.Token()); !errors.Is(err, enough) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// behind is the driver of a client whose server is behind, as a ZooKeeper
// follower can be: it shows nobody until the session has finished a write (S1).
type behind struct{ driver.Driver }

func (d behind) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return &behindSession{Session: s}, err
}

type behindSession struct {
	driver.Session
	level atomic.Bool
}

func (s *behindSession) List(
	ctx context.Context, q driver.Queue, limit int,
) ([]driver.Entry, error) {
	if !s.level.Load() {
		return nil, nil
	}
	return s.Session.List(ctx, q, limit)
}

func (s *behindSession) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	v, err := s.Session.SetRecord(ctx, q, value, known)
	s.level.Store(true)
	return v, err
}

// TestAwaitLeaveWaitsForAMemberThatItsServerDoesNotShowYet: a member that has
// joined has not left.
func TestAwaitLeaveWaitsForAMemberThatItsServerDoesNotShowYet(t *testing.T) {
	at(t, func(s *site) {
		g, _ := s.group()
		link := s.svc.Driver()
		w := s.groupOn(behind{link})
		m := s.join(g, "a")
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, enough)
		defer cancel()
		if err := w.AwaitLeave(ctx, m.Token()); !errors.Is(err, enough) {
			t.Errorf("while it is a member: %v", err)
		}
		link.Expire() // the server of the next session is behind, too
		if err := m.Leave(s.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.AwaitLeave(s.Context(), m.Token()); err != nil {
			t.Error(err)
		}
	})
}

// TestInputIsChecked: the errors name the value and the rule.
func TestInputIsChecked(t *testing.T) {
	at(t, func(s *site) {
		g, _ := s.group()
		c := s.clients[0]
		for what, err := range map[string]error{
			"nil client":       func() error { _, err := group.New(nil, "workers"); return err }(),
			"name is empty":    func() error { _, err := group.New(c, ""); return err }(),
			"nil option":       func() error { _, err := group.New(c, "workers", nil); return err }(),
			"only a mutex and": func() error { _, err := group.New(c, "workers", recipes.WithLockDelay(time.Second)); return err }(),
			"4097 bytes":       func() error { _, err := g.Join(s.Context(), make([]byte, 4097)); return err }(),
		} {
			if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if slices.Contains(s.svc.Queues(), queue) {
			t.Error("an invalid join left an entry")
		}
	})
}

// TestSessionsThatAreLostAgainAndAgain cost few requests: of an observer, and
// of one that waits for the end of a member.
func TestSessionsThatAreLostAgainAndAgain(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, g *group.Group, m *group.Member) error{
		"observe": func(ctx context.Context, g *group.Group, _ *group.Member) (err error) {
			for _, err = range g.Observe(ctx) {
			}
			return err
		},
		"await": func(ctx context.Context, g *group.Group, m *group.Member) error {
			return g.AwaitLeave(ctx, m.Token())
		},
	} {
		at(t, func(s *site) {
			other, _ := s.group()
			m, err := other.Join(s.Context(), nil)
			if err != nil {
				s.Fatal(err)
			}
			g, link := s.group()
			s.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
				if r.Driver == link && (r.Op == memory.OpRecord || r.Op == memory.OpWatch) {
					f.Err = driver.ErrSessionLost
				}
				return f
			})
			ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
			defer cancel()
			if err := call(ctx, g, m); !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("%s: %v", what, err)
			}
			if n := link.Stats().Requests[memory.OpOpen]; n < 20 || n > 300 {
				s.Errorf("%s: %d sessions in a minute", what, n)
			}
			s.svc.OnRequest(nil)
		})
	}
}
