package doublebarrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

const queue = driver.Queue("double-barrier/phase")

// world is a service in virtual time.
type world struct {
	*testing.T
	svc *memory.Service
}

// inWorld fails if a session, an entry, a watch or a goroutine is left.
func inWorld(t *testing.T, f func(w world), opts ...memory.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService(opts...)}
		t.Cleanup(func() {
			time.Sleep(time.Minute) // a session whose opening had no reply ends
			if s := w.svc.Stats(); s.Entries != 0 || s.Watches != 0 || s.Sessions != 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
		f(w)
	})
}

// party is a client with its barrier.
type party struct {
	world
	who    string
	link   *memory.Driver
	client *coordinator.Client
	*Barrier
}

func (w world) join(n int) party {
	w.Helper()
	p := party{world: w, link: w.svc.Driver()}
	p.who = fmt.Sprintf("client-%p", p.link)
	var err error
	p.client, err = coordinator.New(p.link, coordinator.WithLogger(slog.New(slog.DiscardHandler)),
		coordinator.WithIdentity(p.who))
	if err == nil {
		p.Barrier, err = New(p.client, "phase", n)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		w.svc.OnRequest(nil)
		w.svc.Start()
		p.link.Heal()
		if err := p.client.Close(context.Background()); err != nil {
			w.Errorf("close: %v", err)
		}
	})
	return p
}

func (w world) crew(n int) (all []party) {
	for range n {
		all = append(all, w.join(n))
	}
	return all
}

// call is an Enter or Leave under way.
type call struct {
	w      world
	member *Member
	err    error
	done   chan struct{}
}

func (p party) enter(ctx context.Context) *call {
	c := &call{w: p.world, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.member, c.err = p.Enter(ctx)
	}()
	synctest.Wait()
	return c
}

func (w world) leave(ctx context.Context, m *Member) *call {
	c := &call{w: w, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = m.Leave(ctx)
	}()
	synctest.Wait()
	return c
}

func (w world) blocked(calls ...*call) {
	w.Helper()
	synctest.Wait()
	for i, c := range calls {
		select {
		case <-c.done:
			w.Errorf("call %d returned %v", i, c.err)
		default:
		}
	}
}

// returned waits for calls, which must not take longer than the TTL.
func (w world) returned(calls ...*call) {
	w.Helper()
	for i, c := range calls {
		select {
		case <-c.done:
		case <-time.After(15 * time.Second):
			w.Fatalf("call %d is blocked", i)
		}
	}
}

func (w world) succeed(calls ...*call) {
	w.Helper()
	w.returned(calls...)
	for i, c := range calls {
		if c.err != nil {
			w.Errorf("call %d: %v", i, c.err)
		}
	}
}

// loses checks that calls return the loss of members.
func (w world) loses(members []party, calls ...*call) {
	w.Helper()
	w.returned(calls...)
	for i, c := range calls {
		var lost *MemberLostError
		if !errors.As(c.err, &lost) {
			w.Errorf("call %d: %v", i, c.err)
			continue
		}
		for _, p := range members {
			if !slices.Contains(lost.Members, p.who) || !strings.Contains(c.err.Error(), p.who) {
				w.Errorf("call %d: %v does not name %s", i, c.err, p.who)
			}
		}
		if len(lost.Members) != len(members) {
			w.Errorf("call %d: %v", i, c.err)
		}
	}
}

// inside lets a crew enter.
func (w world) inside(crew []party) (members []*Member) {
	w.Helper()
	var calls []*call
	for _, p := range crew {
		calls = append(calls, p.enter(w.Context()))
	}
	w.succeed(calls...)
	for _, c := range calls {
		members = append(members, c.member)
	}
	return members
}

func (w world) empty() {
	w.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	if left := w.svc.Snapshot(queue); len(left) > 0 {
		w.Errorf("left in the queue: %v", left)
	}
}

// TestMembersEnterAndLeaveTogether, round after round, and alone.
func TestMembersEnterAndLeaveTogether(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		inWorld(t, func(w world) {
			crew := w.crew(n)
			for round := range int64(3) {
				var entering []*call
				for _, p := range crew {
					w.blocked(entering...)
					entering = append(entering, p.enter(w.Context()))
				}
				w.succeed(entering...)
				var leaving []*call
				for i := range entering {
					w.blocked(leaving...)
					m := entering[(i+n/2)%n].member
					if m.Context().Err() != nil || m.Round() != round+1 {
						w.Errorf("round %d: %v", m.Round(), m.Context().Err())
					}
					leaving = append(leaving, w.leave(w.Context(), m))
				}
				w.succeed(leaving...)
				if err := entering[0].member.Leave(w.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
					w.Errorf("second leave: %v", err)
				}
				<-entering[0].member.Context().Done()
				w.empty()
			}
		})
	}
}

// TestWakeUpsAreCounted: the last to enter wakes each of the others once. The
// last to leave wakes each once, and a member may wake once more because the
// entry that it watches is removed.
func TestWakeUpsAreCounted(t *testing.T) {
	const n = 20
	inWorld(t, func(w world) {
		crew := w.crew(n)
		var entering []*call
		for _, p := range crew[1:] {
			entering = append(entering, p.enter(w.Context()))
		}
		before := w.svc.Stats()
		entering = append(entering, crew[0].enter(w.Context()))
		w.succeed(entering...)
		s := w.svc.Stats().Since(before)
		if s.Wakeups != n-1 || s.Requests[memory.OpList] != 1 || s.Requests[memory.OpSetRecord] != 1 {
			w.Errorf("enter: %d wake-ups, requests %v", s.Wakeups, s.Requests)
		}
		var leaving []*call
		for _, c := range entering[1:] {
			leaving = append(leaving, w.leave(w.Context(), c.member))
		}
		before = w.svc.Stats()
		w.blocked(leaving...)
		leaving = append(leaving, w.leave(w.Context(), entering[0].member))
		w.succeed(leaving...)
		s = w.svc.Stats().Since(before)
		if s.Wakeups < n || s.Wakeups > 2*n || s.Requests[memory.OpSetRecord] != 1 {
			w.Errorf("leave: %d wake-ups, requests %v", s.Wakeups, s.Requests)
		}
	})
}

// TestMemberThatDiesInsideIsReported when its session has ended, to those that
// leave before and after.
func TestMemberThatDiesInsideIsReported(t *testing.T) {
	for dead := range 3 {
		inWorld(t, func(w world) {
			crew := w.crew(3)
			members := w.inside(crew)
			crew[dead].link.Cut()
			one := w.leave(w.Context(), members[(dead+1)%3])
			w.blocked(one)
			time.Sleep(15 * time.Second)
			two := w.leave(w.Context(), members[(dead+2)%3])
			w.loses(crew[dead:dead+1], one, two)
			crew[dead].link.Heal()
			late := w.leave(w.Context(), members[dead])
			w.returned(late)
			if !errors.Is(late.err, coordinator.ErrSessionLost) {
				w.Errorf("the dead member: %v", late.err)
			}
			w.empty()
			var leaving []*call
			for _, m := range w.inside(crew) { // the next round
				leaving = append(leaving, w.leave(w.Context(), m))
			}
			w.succeed(leaving...)
		})
	}
}

// TestSeveralDeaths leave one survivor.
func TestSeveralDeaths(t *testing.T) {
	inWorld(t, func(w world) {
		crew := w.crew(5)
		members := w.inside(crew)
		leaving := w.leave(w.Context(), members[2])
		dying := []*call{w.leave(w.Context(), members[0]), w.leave(w.Context(), members[3])}
		for _, i := range []int{0, 1, 3, 4} {
			crew[i].link.Cut()
		}
		w.blocked(leaving)
		w.returned(append(dying, leaving)...)
		var lost *MemberLostError
		if !errors.As(leaving.err, &lost) || len(lost.Members) == 0 {
			w.Errorf("got %v", leaving.err)
		}
	})
}

// TestDeathWhileEnteringIsReplaced: the others wait for another member.
func TestDeathWhileEnteringIsReplaced(t *testing.T) {
	inWorld(t, func(w world) {
		crew := w.crew(5)
		ctx, cancel := context.WithCancelCause(w.Context())
		cause := errors.New("enough")
		gaveUp := w.join(5).enter(ctx)
		died := crew[0].enter(w.Context())
		one, two := crew[1].enter(w.Context()), crew[2].enter(w.Context())
		crew[0].link.Cut()
		cancel(cause)
		time.Sleep(15 * time.Second)
		w.returned(gaveUp)
		if gaveUp.err != cause { //nolint:errorlint // unchanged
			w.Errorf("got %v", gaveUp.err)
		}
		w.returned(died)
		if !errors.Is(died.err, coordinator.ErrSessionLost) {
			w.Errorf("got %v", died.err)
		}
		three, four := crew[3].enter(w.Context()), crew[4].enter(w.Context())
		w.blocked(one, two, three, four)
		w.succeed(one, two, three, four, w.join(5).enter(w.Context()))
	})
}

// TestMemberThatGivesUpLeavingIsReported.
func TestMemberThatGivesUpLeavingIsReported(t *testing.T) {
	inWorld(t, func(w world) {
		crew := w.crew(3)
		members := w.inside(crew)
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, cause)
		defer cancel()
		one, two := w.leave(ctx, members[0]), w.leave(w.Context(), members[1])
		w.returned(one)
		if !errors.Is(one.err, cause) {
			w.Errorf("got %v", one.err)
		}
		w.loses(crew[:1], two, w.leave(w.Context(), members[2]))
		w.empty()
	})
}

// TestMemberThatNoticesTheRoundWhenItIsOver gets the loss from Enter.
func TestMemberThatNoticesTheRoundWhenItIsOver(t *testing.T) {
	inWorld(t, func(w world) {
		crew := w.crew(3)
		late := crew[0].enter(w.Context())
		crew[0].link.HoldReplies()
		members := w.inside(crew[1:])
		ctx, cancel := context.WithCancel(w.Context())
		gone := w.leave(ctx, members[0])
		cancel()
		w.returned(gone)
		w.loses(crew[1:2], w.leave(w.Context(), members[1]))
		crew[0].link.Reset() // loses the notification of the round's beginning
		crew[0].link.Heal()
		w.loses(crew[1:2], late)
		w.empty()
	})
}

// TestOthersWaitForTheNextRound.
func TestOthersWaitForTheNextRound(t *testing.T) {
	inWorld(t, func(w world) {
		first := w.crew(2)
		members := w.inside(first)
		second := w.crew(2)
		three, four := second[0].enter(w.Context()), second[1].enter(w.Context())
		one := w.leave(w.Context(), members[0])
		w.blocked(one, three, four)
		w.succeed(w.leave(w.Context(), members[1]), one, three, four)
		w.succeed(w.leave(w.Context(), three.member).or(w.leave(w.Context(), four.member))...)
		w.empty()
	})
}

func (c *call) or(others ...*call) []*call { return append(others, c) }

// TestMemberOfAnotherSizeIsRefused, whichever comes first.
func TestMemberOfAnotherSizeIsRefused(t *testing.T) {
	for _, sizes := range [][2]int{{2, 3}, {3, 2}} {
		inWorld(t, func(w world) {
			a := w.join(sizes[0]).enter(w.Context())
			b := w.join(sizes[1]).enter(w.Context())
			w.returned(b)
			if !errors.Is(b.err, coordinator.ErrInvalid) ||
				!strings.Contains(b.err.Error(), fmt.Sprintf("one of %d members, not of %d", sizes[0], sizes[1])) {
				w.Errorf("got %v", b.err)
			}
			w.blocked(a)
			w.succeed(w.enterAll(sizes[0]-1, sizes[0], a)...)
		})
	}
	for _, n := range []int{0, MaxMembers + 1} {
		inWorld(t, func(w world) {
			if _, err := New(w.join(1).client, "phase", n); !errors.Is(err, coordinator.ErrInvalid) ||
				!strings.Contains(err.Error(), fmt.Sprintf("of %d members", n)) {
				w.Errorf("got %v", err)
			}
		})
	}
}

func (w world) enterAll(count, n int, calls ...*call) []*call {
	for range count {
		calls = append(calls, w.join(n).enter(w.Context()))
	}
	return calls
}

// TestFaultAtEachRequest of one member loses no member, unless its session
// ends: then the others are told.
func TestFaultAtEachRequest(t *testing.T) {
	faults := map[string]func(p party) memory.Fate{
		"reply lost":   func(party) memory.Fate { return memory.Fate{DropReply: true} },
		"request lost": func(party) memory.Fate { return memory.Fate{DropRequest: true} },
		"late":         func(party) memory.Fate { return memory.Fate{DelayRequest: 3 * time.Second} },
		"late reply":   func(party) memory.Fate { return memory.Fate{DelayReply: 3 * time.Second} },
		"expired":      func(p party) memory.Fate { p.link.Expire(); return memory.Fate{} },
	}
	for name, fault := range faults {
		for member := range 3 {
			for step, more := int32(0), true; more; step++ {
				inWorld(t, func(w world) {
					crew := w.crew(3)
					var requests atomic.Int32
					w.svc.OnRequest(func(r memory.Request) memory.Fate {
						if r.Driver != crew[member].link || r.Op == memory.OpRenew || r.Op == memory.OpOpen {
							return memory.Fate{}
						}
						if requests.Add(1)-1 == step {
							return fault(crew[member])
						}
						return memory.Fate{}
					})
					var entering, leaving []*call
					for _, p := range crew {
						entering = append(entering, p.enter(w.Context()))
					}
					again := false
					for i, c := range entering {
						select {
						case <-c.done:
						case <-time.After(20 * time.Second):
							again = true // one has died: the others wait for another
						}
						if i == len(entering)-1 && again {
							entering = append(entering, crew[member].enter(w.Context()))
						}
					}
					w.returned(entering...)
					failed := 0
					for _, c := range entering {
						if c.err != nil {
							failed++
							continue
						}
						leaving = append(leaving, w.leave(w.Context(), c.member))
					}
					w.returned(leaving...)
					for i, c := range leaving {
						var lost *MemberLostError
						switch {
						case c.err == nil, errors.As(c.err, &lost) && name == "expired":
						case errors.Is(c.err, coordinator.ErrSessionLost) && name == "expired":
						default:
							w.Errorf("%s at request %d of member %d: leave %d: %v", name, step, member, i, c.err)
						}
					}
					if failed > 0 && name != "expired" {
						w.Errorf("%s at request %d of member %d: %d did not enter", name, step, member, failed)
					}
					w.empty()
					more = requests.Load() > step
				})
				if step > 40 || t.Failed() {
					t.Fatalf("%s: step %d", name, step)
				}
			}
		}
	}
}

// TestRoundIsEndedWhenAllMembersHaveDied: those that wait enter the next one.
func TestRoundIsEndedWhenAllMembersHaveDied(t *testing.T) {
	inWorld(t, func(w world) {
		first := w.crew(3)
		w.inside(first)
		var waiting []*call
		for range 3 {
			waiting = append(waiting, w.join(3).enter(w.Context()))
		}
		for _, p := range first {
			p.link.Cut()
		}
		w.blocked(waiting...)
		w.succeed(waiting...)
	})
}

// TestMemberOfABrokenRoundDoesNotBlockLaterOnes: it is still inside when all
// members of a later round die.
func TestMemberOfABrokenRoundDoesNotBlockLaterOnes(t *testing.T) {
	inWorld(t, func(w world) {
		first, second := w.crew(3), w.crew(3)
		members := w.inside(first)
		first[1].link.Cut()
		w.loses(first[1:2], w.leave(w.Context(), members[2])) // members[0] works
		w.inside(second)
		var waiting []*call
		for range 3 {
			waiting = append(waiting, w.join(3).enter(w.Context()))
		}
		for _, p := range second {
			p.link.Cut()
		}
		w.blocked(waiting...)
		w.succeed(waiting...)
		w.loses(first[1:2], w.leave(w.Context(), members[0]))
	})
}

// TestEntryOfAnEarlierRoundDoesNotCount: a member has left, but the request
// that removes its entry is late.
func TestEntryOfAnEarlierRoundDoesNotCount(t *testing.T) {
	inWorld(t, func(w world) {
		crew := w.crew(2)
		members := w.inside(crew)
		one := w.leave(w.Context(), members[0])
		crew[0].link.HoldRequests()
		w.succeed(w.leave(w.Context(), members[1]), one)
		var leaving []*call
		for _, m := range w.inside(w.crew(2)) {
			leaving = append(leaving, w.leave(w.Context(), m))
		}
		w.succeed(leaving...)
		if left := w.svc.Snapshot(queue); len(left) == 0 {
			w.Error("the entry was removed")
		}
		alone := w.join(2).enter(w.Context())
		w.blocked(alone)
		crew[0].link.Heal()
		w.blocked(alone)
		w.succeed(w.join(2).enter(w.Context()), alone)
	})
}

// TestRefusedRequestIsAnError, whichever request it is, while members wait for
// the next round.
func TestRefusedRequestIsAnError(t *testing.T) {
	for _, op := range []memory.Op{
		memory.OpJoin, memory.OpAhead, memory.OpRecord, memory.OpList, memory.OpWatch, memory.OpSetRecord,
	} {
		inWorld(t, func(w world) {
			crew := w.crew(2)
			if op != memory.OpSetRecord {
				w.inside(crew)
			}
			late := w.join(2)
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Driver == late.link && r.Op == op {
					return memory.Fate{Err: driver.ErrRefused}
				}
				return memory.Fate{}
			})
			if op == memory.OpSetRecord {
				crew[0].enter(w.Context())
			}
			c := late.enter(w.Context())
			w.returned(c)
			if !errors.Is(c.err, coordinator.ErrRefused) {
				w.Errorf("%s: %v", op, c.err)
			}
			if op == memory.OpSetRecord {
				w.succeed(crew[1].enter(w.Context()))
			}
		})
	}
}

// TestRecordWithLaterMembersIsAnError: it was copied from another service, say.
func TestRecordWithLaterMembersIsAnError(t *testing.T) {
	inWorld(t, func(w world) {
		w.write(`{"round":3,"members":[{"token":99,"key":"x","identity":"y"}],"last":99,"over":true}`)
		c := w.join(1).enter(w.Context())
		w.returned(c)
		if !errors.Is(c.err, coordinator.ErrRemoved) {
			w.Errorf("got %v", c.err)
		}
		w.empty()
	})
}

func (w world) write(record string) {
	w.Helper()
	s, err := w.svc.Driver().Open(w.Context(), time.Minute)
	if err == nil {
		_, err = s.SetRecord(w.Context(), queue, []byte(record), w.svc.Record(queue).Version)
	}
	if err == nil {
		err = s.Close(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
}

func TestForeignRecordIsNamed(t *testing.T) {
	inWorld(t, func(w world) {
		w.write("12")
		c := w.join(1).enter(w.Context())
		w.returned(c)
		if !errors.Is(c.err, coordinator.ErrRefused) || !strings.Contains(c.err.Error(), `"12"`) {
			w.Errorf("got %v", c.err)
		}
		w.empty()
	})
}
