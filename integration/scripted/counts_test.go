package scripted_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/ways"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// These tests count requests, renewals excluded, and events of watches.

// spend checks how many requests do needs.
func (c *client) spend(what string, want int, do func()) {
	c.w.Helper()
	settle() // the session sets watches of its own
	before := c.sent()
	do()
	if n := c.sent() - before; n != want {
		c.w.Errorf("%s: %d requests, want %d", what, n, want)
	}
}

func TestUncontendedHoldsAreTwoRequests(t *testing.T) {
	each(t, func(w *world) {
		c := w.client()
		for _, way := range []ways.Way{ways.Lock, ways.Write, ways.Read, ways.Term} {
			w.release(c.take(way, string(way))) // opens the session and creates the queue
			c.spend(string(way), 2, func() { w.release(c.take(way, string(way))) })
		}
		m, err := mutex.New(c.Client, string(ways.Lock))
		w.ok(err)
		c.spend("re-entered", 2, func() {
			l, err := m.Lock(w.Context())
			w.ok(err)
			inner, err := m.Lock(l.Context())
			w.ok(err)
			w.ok(inner.Unlock(w.Context()))
			w.ok(l.Unlock(w.Context()))
		})
		s, err := semaphore.New(c.Client, "permits", 4)
		w.ok(err)
		pair := func() {
			p, err := s.Acquire(w.Context(), 3)
			w.ok(err)
			w.ok(p.Release(w.Context()))
		}
		pair() // stores the limit
		c.spend("permits", 2, pair)
	})
}

func TestFailedTryLockLeavesNoContenderAndNoWatch(t *testing.T) {
	each(t, func(w *world) {
		holder, waiting, c := w.client(), w.client(), w.client()
		h := holder.take(ways.Lock, "a")
		next := waiting.begin(ways.Lock, "a", 2)
		w.release(c.take(ways.Lock, "other")) // opens the session
		settle()
		watches, events := w.Stats().Watches, waiting.events()
		m, err := mutex.New(c.Client, "a")
		w.ok(err)
		for range 10 {
			_, err := m.TryLock(w.Context())
			w.must("TryLock", err, coordinator.ErrTaken)
		}
		settle()
		if n := w.Stats().Watches; n != watches || waiting.events() != events {
			w.Errorf("%d watches after %d, and %d events", n, watches, waiting.events()-events)
		}
		w.holds(ways.Lock, "a", 2)
		w.release(h)
		next.granted()
	})
}

// Contenders that take turns need two writes each, and on ZooKeeper the read
// that sets the watch; on etcd the watch and the read after it.
func TestAlternatingContendersNeedFewRequests(t *testing.T) {
	each(t, func(w *world) {
		const clients, turns = 4, 25
		var all []*client
		done := make(chan int, clients)
		for range clients {
			all = append(all, w.client())
			w.release(all[len(all)-1].take(ways.Lock, "a"))
		}
		before := 0
		for _, c := range all {
			before -= c.sent()
			go func() {
				for range turns {
					if h, err := ways.Lock.Ask(w.Context(), c.Client, "a"); err != nil || h.Release(w.Context()) != nil {
						w.Errorf("Lock: %v", err)
					}
				}
				done <- c.sent()
			}()
		}
		n := before
		for range all {
			n += <-done
		}
		if float64(n) > 4.2*clients*turns {
			w.Errorf("%d requests for %d grants", n, clients*turns)
		}
	})
}

// A release may wake the releaser and its successor. A contender that waits for
// long watches its own entry, too, and on ZooKeeper its predecessor's entry
// beside the successor node; on etcd a watch gets the events of entry and
// marker.
func TestReleaseWakesExactlyOneOfAThousand(t *testing.T) {
	each(t, func(w *world) {
		const clients, apiece = 4, 250
		l := w.client().take(ways.Lock, "a")
		var all []*client
		served := make(chan coordinator.Token, clients*apiece)
		for range clients {
			c := w.client()
			all = append(all, c)
			for range apiece {
				go func() {
					h, err := ways.Lock.Ask(w.Context(), c.Client, "a")
					if err != nil || h.Release(w.Context()) != nil {
						w.Errorf("Lock: %v", err)
					}
					served <- h.Token
				}()
			}
		}
		settle()
		w.holds(ways.Lock, "a", 1+clients*apiece)
		settle()
		events := func() (n int) {
			for _, c := range all {
				n += c.events()
			}
			return n
		}
		before := events()
		w.release(l)
		for range clients * apiece {
			<-served
		}
		if n := events() - before; n > 5*clients*apiece {
			w.Errorf("%d events of watches for %d releases: a herd", n, clients*apiece)
		}
	})
}

// Writers and readers in turn: a writer's release wakes the readers that it
// admits, and a reader's nobody while another reads.
func TestWriterWakesExactlyTheReadersItAdmits(t *testing.T) {
	each(t, func(w *world) {
		front, back, next, keeper := w.client(), w.client(), w.client(), w.client()
		first := keeper.take(ways.Write, "a")
		var readers, later []*pending
		for i := range 6 {
			readers = append(readers, front.begin(ways.Read, "a", i+2))
		}
		writer := next.begin(ways.Write, "a", 8)
		for i := range 3 {
			later = append(later, back.begin(ways.Read, "a", i+9))
		}
		woken := func(do func()) (f, b, n int) {
			settle()
			f, b, n = front.events(), back.events(), next.events()
			do()
			settle()
			return front.events() - f, back.events() - b, next.events() - n
		}
		want := 6
		if w.kind == "zookeeper" {
			want = 1 // the six share a session, which has one watch on the writer
		}
		if f, b, n := woken(func() { w.release(first) }); f != want || b != 0 || n != 0 {
			w.Errorf("a writer's release: %d events for the readers that it admits, want %d; %d for those behind, %d for the next writer", f, want, b, n)
		}
		if _, b, n := woken(func() {
			for _, r := range readers[:5] {
				w.release(r.granted())
			}
		}); b != 0 || n != 0 || writer.over() {
			w.Errorf("readers that leave while another reads: %d events for readers, %d for the writer", b, n)
		}
		most := 1
		if w.kind == "zookeeper" {
			most = 2 // after a long wait a contender watches two nodes of its predecessor
		}
		if _, b, n := woken(func() { w.release(readers[5].granted()) }); n < 1 || n > most || b != 0 || !writer.over() {
			w.Errorf("the last reader's release: %d events for the writer, %d for readers behind it", n, b)
		}
		w.release(writer.granted())
		for _, r := range later {
			w.release(r.granted())
		}
	})
}

// Curator needs 251 requests and 125 notifications for the same.
func TestFiveWritersThenTwentyReadersCauseNoHerd(t *testing.T) {
	each(t, func(w *world) {
		c, keeper := w.client(), w.client()
		first := keeper.take(ways.Write, "a")
		var all []*pending
		for i := range 25 {
			way := ways.Read
			if i < 5 {
				way = ways.Write
			}
			all = append(all, c.begin(way, "a", i+2))
		}
		settle()
		requests, events := c.sent(), c.events()
		w.release(first)
		for i, p := range all {
			if h := p.granted(); i < 5 {
				w.release(h)
			}
		}
		for _, p := range all[5:] {
			w.release(p.hold)
		}
		if requests, events = c.sent()-requests, c.events()-events; 2*requests > 251 || events > 3*25 {
			w.Errorf("%d requests and %d events for 25 grants", requests, events)
		}
	})
}

func TestReleaseOfAPermitWakesThoseItAdmitsAndOneMore(t *testing.T) {
	each(t, func(w *world) {
		keeper := w.client()
		var held []hold
		for range ways.Permits {
			held = append(held, keeper.take(ways.Permit, "a"))
		}
		var all []*client
		var waiting []*pending
		for i := range 6 {
			all = append(all, w.client())
			waiting = append(waiting, all[i].begin(ways.Permit, "a", ways.Permits+1+i))
		}
		for i := range waiting {
			settle()
			var before []int
			for _, c := range all {
				before = append(before, c.events())
			}
			w.release(held[1]) // not in the order of acquiring
			held = append(slices.Delete(held, 1, 2), waiting[i].granted())
			settle()
			woken := 0
			for j, c := range all {
				n := c.events() - before[j]
				if n > 0 && j >= i {
					woken++
				}
				if j > i+1 && n > 0 || j > i && waiting[j].over() {
					w.Errorf("release %d: waiter %d, which is not the next, got %d events, and %v", i, j, n, waiting[j].err)
				}
			}
			if woken > 2 {
				w.Errorf("release %d woke %d waiters and admitted one", i, woken)
			}
		}
	})
}

// Observers of an election are woken by changes of the leader, not by
// candidates.
func TestCandidatesWakeNoObserver(t *testing.T) {
	each(t, func(w *world) {
		const observers, candidates = 3, 12
		o, others, leader := w.client(), w.client(), w.client()
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		open := func(c *client) *election.Election {
			e, err := election.New(c.Client, "a")
			w.ok(err)
			return e
		}
		seen := make(chan string, 1000)
		term, err := open(leader).Campaign(ctx, []byte("one"))
		w.ok(err)
		for range observers {
			go func() {
				for l, err := range open(o).Observe(ctx) {
					if err == nil {
						seen <- string(l.Payload)
					}
				}
			}()
		}
		sees := func(what, want string, events, woken int, do func()) {
			w.Helper()
			settle()
			was, wasWoken := o.events(), others.events()
			do()
			settle()
			if n, m := o.events()-was, others.events()-wasWoken; n > events || woken >= 0 && m != woken {
				w.Errorf("%s: %d events for observers, %d for candidates", what, n, m)
			}
			for range observers {
				if want == "" {
					break
				}
				if len(seen) == 0 {
					w.Fatalf("%s: an observer sees nothing", what)
				}
				if last := <-seen; last != want {
					w.Errorf("%s: it sees %q, want %q", what, last, want)
				}
			}
			if len(seen) > 0 {
				w.Errorf("%s: observers saw %d more", what, len(seen))
			}
		}
		settle()
		for range observers {
			<-seen
		}
		won := make(chan *election.Term, candidates)
		next, queued := open(others), 0
		join := func(ctx context.Context) {
			queued++
			go func() {
				if term, err := next.Campaign(ctx, []byte("next")); err == nil {
					won <- term
				}
			}()
			w.holds(ways.Term, "a", queued+1)
		}
		quit, stop := context.WithCancel(ctx)
		sees("candidates", "", 0, 0, func() {
			for range candidates {
				join(ctx)
			}
			join(quit)
		})
		sees("a candidate leaves", "", 0, -1, func() { stop() })
		sees("proclaimed", "two", observers, -1, func() { w.ok(term.Proclaim(ctx, []byte("two"))) })
		sees("resigned", "next", observers, 1, func() { w.ok(term.Resign(ctx)) })
		if second := <-won; second.Token() <= term.Token() {
			w.Errorf("token %d after %d", second.Token(), term.Token())
		}
	})
}

// Limits are stored: clients with another one are refused, and waiters follow a
// change. A part of a grant is released, and the rest stays held.
func TestLimitIsStoredAndChanged(t *testing.T) {
	each(t, func(w *world) {
		open := func(limit int) *semaphore.Semaphore {
			s, err := semaphore.New(w.client().Client, "a", limit)
			w.ok(err)
			return s
		}
		refused := func(s *semaphore.Semaphore, asked, stored int) {
			w.Helper()
			var differ *semaphore.LimitError
			if _, err := s.Acquire(w.Context(), 1); !errors.As(err, &differ) || differ.Asked != asked || differ.Stored != stored {
				w.Errorf("Acquire with another limit = %v", err)
			}
		}
		got := map[string]*semaphore.Permit{}
		ask := func(what string, s *semaphore.Semaphore, n int) {
			go func() {
				p, err := s.Acquire(w.Context(), n)
				w.must(what, err, nil)
				w.mu.Lock()
				got[what] = p
				w.mu.Unlock()
			}()
			settle()
		}
		granted := func(what string) bool { w.mu.Lock(); defer w.mu.Unlock(); return got[what] != nil }
		a, b := open(2), open(3)
		first, err := a.Acquire(w.Context(), 2)
		w.ok(err)
		refused(b, 3, 2)
		ask("one", a, 1)
		ask("two", a, 2)
		w.ok(b.SetLimit(w.Context(), 5))
		if settle(); !granted("one") || !granted("two") {
			w.Fatal("waiters do not follow the limit")
		}
		refused(a, 2, 5)
		w.ok(b.SetLimit(w.Context(), 3))
		ask("last", b, 1)
		if l, err := b.List(w.Context()); err != nil || l.Limit != 3 || l.Held != 5 || l.Free() != 0 {
			w.Errorf("the list is %+v, %v", l, err)
		}
		left, err := first.ReleasePart(w.Context(), 1)
		w.ok(err)
		w.ok(got["one"].Release(w.Context()))
		if settle(); granted("last") || left != 1 || first.Permits() != 1 || first.Err() != nil {
			w.Errorf("granted %v with %d permits left, %v", granted("last"), first.Permits(), first.Err())
		}
		w.ok(first.Release(w.Context()))
		if settle(); !granted("last") {
			w.Error("a free permit is not granted")
		}
		deployed := open(semaphore.Set(7)) // three are held
		if _, err := deployed.TryAcquire(w.Context(), 5); !errors.Is(err, coordinator.ErrTaken) {
			w.Errorf("5 more than 3 of 7: %v", err)
		}
		if p, err := deployed.Acquire(w.Context(), 4); err != nil || p.Permits() != 4 {
			w.Errorf("4 more: %v", err)
		}
		refused(a, 2, 7)
	})
}

// A check of a sequencer is one read at any length of the queue. It follows
// each conversion of the entry while it is held.
func TestCheckFollowsConversionsAndIsOneRead(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		holds := func(what string, seq fence.Sequencer, want bool) {
			w.Helper()
			if err := other.Check(w.Context(), seq); want && err != nil || !want && !errors.Is(err, fence.ErrStale) {
				w.Errorf("%s: check = %v, want it valid: %v", what, err, want)
			}
		}
		of := func(h interface {
			Sequencer(context.Context) (fence.Sequencer, error)
		},
		) fence.Sequencer {
			seq, err := h.Sequencer(w.Context())
			w.ok(err)
			return seq
		}
		s, err := semaphore.New(c.Client, "a", 5)
		w.ok(err)
		p, err := s.Acquire(w.Context(), 3)
		w.ok(err)
		whole := of(p)
		holds("permits", whole, true)
		settle() // by then the entry says that it holds
		holds("permits held for a while", whole, true)
		_, err = p.ReleasePart(w.Context(), 1)
		w.ok(err)
		holds("permits released in part", whole, false)
		rest := of(p)
		holds("the rest", rest, true)
		w.ok(p.Release(w.Context()))
		holds("released permits", rest, false)

		e, err := election.New(c.Client, "a")
		w.ok(err)
		term, err := e.Campaign(w.Context(), []byte("first"))
		w.ok(err)
		leads := of(term)
		w.ok(term.Proclaim(w.Context(), []byte("second")))
		holds("a term with a changed value", leads, true)
		for i := range 50 {
			c.begin(ways.Term, "a", i+2)
		}
		other.spend("checks at a long queue", 5, func() {
			for range 5 {
				holds("a term with candidates", leads, true)
			}
		})
		w.ok(term.Resign(w.Context()))
		holds("a term that is over", leads, false)

		rw, err := rwlock.New(c.Client, "a")
		w.ok(err)
		write, err := rw.Lock(w.Context())
		w.ok(err)
		writes := of(write)
		holds("a write lock", writes, true)
		read, err := rw.RLock(write.Context())
		w.ok(err)
		w.ok(write.Unlock(w.Context()))
		holds("a write lock that was downgraded", writes, false)
		reads := of(read)
		holds("a read lock", reads, true)
		w.ok(read.Unlock(w.Context()))
		holds("a read lock that was released", reads, false)
	})
}
