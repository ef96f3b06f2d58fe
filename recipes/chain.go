package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// This file reads who waits for whom from the entries of queues.
//
//	a holds A, waits for B ... b holds B, waits for C ... c holds C, waits for A
//
// The entry of a holder does not say what it waits for elsewhere, but that of
// a waiter says what it holds. So a chain is followed backwards: who waits in
// the queue of A? c, which holds C. Who waits there? b, which holds B, for
// which a waits: a cycle.
//
// A waiter is in a chain only if each entry that it is said to wait for must
// leave before it is admitted (see Waits): then a cycle is a deadlock. A
// contender for permits waits for one of several holders, so it is in none.

const (
	// chainReach is how many entries are read of a queue, from the head. On
	// ZooKeeper each is a request. A contender further behind is not found.
	chainReach = 64
	// chainReads is how many queues a search reads.
	chainReads = 16
)

// site is a queue, and the session that can read it.
type site struct {
	session *engine.Session
	queue   driver.Queue
}

// link is a contender that waits, and the hold of it that keeps out the next
// one of the chain.
type link struct {
	at    site
	id    string
	token driver.Token
	info  info
	holds OuterHold
}

// step is a link with the one before it.
type step struct {
	link
	from *step
	in   *engine.Session // known to have the queue of holds, or nil
}

// chain returns the links up to s, the first one first.
func (s *step) chain() (all []link) {
	for ; s != nil; s = s.from {
		all = append(all, s.link)
	}
	slices.Reverse(all)
	return all
}

// search is one search for a cycle. It reads each queue once.
type search struct {
	sessions []*engine.Session // of the services that can be read
	read     map[site][]driver.Entry
	left     int // reads
}

func newSearch(sessions []*engine.Session, reads int) *search {
	return &search{sessions: sessions, read: map[site][]driver.Entry{}, left: reads}
}

// list returns the first entries of a queue. A queue that cannot be read has
// none.
func (s *search) list(ctx context.Context, at site) []driver.Entry {
	entries, known := s.read[at]
	if !known && s.left > 0 && at.session.Ended() == nil {
		s.left--
		entries, _ = at.session.List(ctx, at.queue, chainReach)
		s.read[at] = entries
	}
	return entries
}

// find returns the shortest cycle of which first is a part, beginning with it,
// or nil. It is a snapshot of nothing: see confirm.
func (s *search) find(ctx context.Context, first link) []link {
	type entry struct {
		queue driver.Queue
		id    string
		token driver.Token
	}
	own := first.info.Nest
	seen := map[entry]bool{{first.at.queue, first.id, first.token}: true}
	var open []*step
	for i, o := range own.Under {
		first.holds = o
		next := &step{link: first}
		if own.sessions != nil { // of this process
			next.in = own.sessions[i]
		}
		open = append(open, next)
	}
	for ; len(open) > 0 && ctx.Err() == nil; open = open[1:] {
		for _, w := range s.behind(ctx, open[0]) {
			if e := (entry{w.at.queue, w.id, w.token}); seen[e] {
				continue
			} else {
				seen[e] = true
			}
			for _, o := range w.info.Nest.Under {
				w.holds = o
				next := &step{link: w, from: open[0]}
				if o.Queue == first.at.queue && s.waits(ctx, first, o) {
					return next.chain()
				}
				open = append(open, next)
			}
		}
	}
	return nil
}

// behind returns the contenders that wait for the hold of a step.
func (s *search) behind(ctx context.Context, from *step) (all []link) {
	for _, session := range s.reach(from) {
		at := site{session, from.holds.Queue}
		entries := s.list(ctx, at)
		held := indexOf(entries, from.holds.ID, from.holds.Token)
		if held < 0 {
			continue // of another service, or it was released
		}
		for i := held + 1; i < len(entries); i++ {
			w := linkOf(at, entries[i])
			if w.info.Nest != nil && waitsFor(entries, i, held, w.info.Nest.Waits) {
				all = append(all, w)
			}
		}
		return all
	}
	return nil
}

// reach returns the sessions that may have the queue of a step's hold: of its
// waiter's service, or if it is of another client, all, the likely ones first.
// An entry is recognized by its random ID, so a wrong one shows nothing.
func (s *search) reach(from *step) []*engine.Session {
	service := from.holds.Service
	switch {
	case from.in != nil:
		return []*engine.Session{from.in}
	case service == "":
		return []*engine.Session{from.at.session}
	}
	likely := func(session *engine.Session) int {
		if serviceOf(session) == service {
			return 0
		}
		return 1
	}
	all := slices.Clone(s.sessions)
	slices.SortStableFunc(all, func(a, b *engine.Session) int { return likely(a) - likely(b) })
	return all
}

// waits reports whether a contender waits for a hold in its queue.
func (s *search) waits(ctx context.Context, w link, o OuterHold) bool {
	entries := s.list(ctx, w.at)
	held, own := indexOf(entries, o.ID, o.Token), indexOf(entries, w.id, w.token)
	return held >= 0 && waitsFor(entries, own, held, w.info.Nest.Waits)
}

// confirm reads the queues of a cycle again, and reports whether it is there
// still. If so, it was a deadlock at the moment between the two: each of its
// entries was in both reads, and an entry that has left never comes back with
// the same ID and token, so all of them were in their queues at that moment.
// Each waiter was behind a hold that keeps it out, so it was not admitted; and
// each hold was that of the next waiter.
//
// The second reads must show no moment before the first ones ended. So each
// service is first sent a write of no version, as in [Queue.LatestRecord].
func (s *search) confirm(ctx context.Context, cycle []link) bool {
	s.read, s.left = map[site][]driver.Entry{}, chainReads
	fresh := map[*engine.Session]bool{}
	for _, w := range cycle {
		if fresh[w.at.session] {
			continue
		}
		fresh[w.at.session] = true
		_, err := w.at.session.SetRecord(ctx, w.at.queue, []byte("0"), driver.Any)
		if !errors.Is(err, coordinator.ErrStale) || errors.Is(err, coordinator.ErrUnavailable) {
			return false
		}
	}
	for i, w := range cycle {
		// The one before it holds what it waits for; the first waits for the
		// last.
		if !s.waits(ctx, w, cycle[(i+len(cycle)-1)%len(cycle)].holds) {
			return false
		}
	}
	return ctx.Err() == nil
}

// linkOf decodes an entry, which is that of a waiter if its Nest is not nil.
func linkOf(at site, e driver.Entry) link {
	w := link{at: at, id: e.ID, token: e.Token}
	if e.ID != "" && e.Stray == "" && json.Unmarshal(e.Value, &w.info) == nil &&
		engine.CheckIdentity(w.info.Identity) == nil {
		w.info.Nest = w.info.Nest.checked()
	} else {
		w.info = info{}
	}
	return w
}

// indexOf finds an entry, also after a conversion, which keeps ID and token.
func indexOf(entries []driver.Entry, id string, token driver.Token) int {
	return slices.IndexFunc(entries, func(e driver.Entry) bool {
		return e.ID == id && e.Token == token && e.Stray == ""
	})
}

// waitsFor reports whether the contender at index own cannot be admitted before
// the one at held has left.
func waitsFor(entries []driver.Entry, own, held int, waits Waits) bool {
	switch waits {
	case WaitsForAll:
		return held < own
	case WaitsForOthers:
		// For one of another mode, or for one that waits for it: all but
		// readers wait for all that are ahead of them.
		for i := held; i < own; i++ {
			e := entries[i]
			if e.Mode != entries[own].Mode && e.ID != "" && e.Stray == "" {
				return true
			}
		}
	}
	return false
}

// serviceOf names the service of a session, as an entry does.
func serviceOf(s *engine.Session) string { return shortened(s.Client().String(), mostService) }

// signature identifies a cycle.
func signature(cycle []link) string {
	var all []string
	for _, w := range cycle {
		all = append(all, string(w.at.queue)+" "+w.id+" "+w.token.String())
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// rank returns how many contenders of a cycle give up before its first one, or
// -1 if that never does. Of those that may, the one gives up first whose call
// began last, by the clock of its process. All that read the cycle agree, since
// they read the same.
func rank(cycle []link) int {
	before := 0
	for _, w := range cycle[1:] {
		if w.info.Nest.Yields && later(w, cycle[0]) {
			before++
		}
	}
	if !cycle[0].info.Nest.Yields {
		return -1
	}
	return before
}

func later(a, b link) bool {
	if !a.info.Since.Equal(b.info.Since) {
		return a.info.Since.After(b.info.Since)
	}
	return a.id > b.id
}
