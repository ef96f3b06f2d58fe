package zookeeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has what a session on a given Conn needs: it has to look where others are told, and it
// cannot take its entries with it when it ends.

// lookInterval is how often a given Conn is looked at. Its events belong to whoever made it
// and there is no second listener, but its state can be read, which costs two
// loads.
const lookInterval = 100 * time.Millisecond

// lent is what a session has when its Conn belongs to somebody else.
type lent struct {
	chores *chores
	wg     sync.WaitGroup // follow

	mu     sync.Mutex
	closed bool
	made   map[entry]bool // what the session may have in lines; true after a conversion, which changes the name
	wrote  bool           // a record, perhaps
}

type entry struct {
	line driver.Line
	id   string
}

// look brings what the session knows of its Conn up to date.
func (s *session) look() {
	switch s.conn.SessionID() {
	case s.id:
		up := s.conn.State() == zk.StateHasSession
		if up && !s.presence.now() {
			s.watches.lapse() // before waiters hear of the connection and look
		}
		s.presence.set(up)
	case 0:
		s.finish(errExpired, true)
	default:
		s.finish(errMoved, true)
	}
}

// follow looks at the Conn until the session is over. A connection that is lost and made again between
// two looks stays unseen; waiters then rely on the library, which sets their watches again.
func (s *session) follow() {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.look()
		case <-s.over:
			return
		}
	}
}

// enlist notes a contender that may come to stand in a line. With a Conn of our own there is no
// lent, and nothing to note: its session takes all entries with it.
func (l *lent) enlist(line driver.Line, id string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return driver.Wrap(driver.ErrSessionLost, errClosed)
	}
	if e := (entry{line, id}); !l.made[e] {
		l.made[e] = false
	}
	return nil
}

// enlistConverted notes that a contender may stand in a line under another name than its place says.
func (l *lent) enlistConverted(line driver.Line, id string) error {
	if err := l.enlist(line, id); l == nil || err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made[entry{line, id}] = true
	return nil
}

// strike notes that a contender is in the line no more.
func (l *lent) strike(line driver.Line, id string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.made, entry{line, id})
}

// strikeGone notes that a place of a contender is not in the line. One that was converted may have another.
func (l *lent) strikeGone(line driver.Line, id string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made[entry{line, id}] {
		delete(l.made, entry{line, id})
	}
}

// write notes that a record may be written.
func (l *lent) write() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return driver.Wrap(driver.ErrSessionLost, errClosed)
	}
	l.wrote = true
	return nil
}

// close refuses further joins and returns what is left to remove.
func (l *lent) close() (left []entry, wrote bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for e := range l.made {
		left = append(left, e)
	}
	return left, l.wrote
}

// undo removes what a join has made on a session that is not this one's: it was queued in the
// Conn when that changed sessions. Nobody else would; the entry would stand in the line for as
// long as the Conn has its new session. It runs in the join's goroutine, which nobody waits
// for any more.
func (s *session) undo(parent, id string) {
	if done, ok := s.lent.chores.begin(); ok {
		defer done()
		s.sweep(parent, id)
	}
}

// sweep removes the entries of a contender, or with an empty id the heels of those who have passed, trying until it has or the
// driver is closed. It asks the Conn directly, whatever session that has by now.
func (s *session) sweep(parent, id string) {
	for {
		_, err := s.conn.Sync(parent)
		var names []string
		if err == nil {
			names, _, err = s.conn.Children(parent)
		}
		if errors.Is(err, zk.ErrNoNode) {
			return
		}
		if err == nil {
			err = s.sweepOnce(parent, parseChildren(names), id)
		}
		if err == nil {
			return
		}
		select {
		case <-s.lent.chores.stop:
			return
		case <-time.After(lookInterval):
		}
	}
}

func (s *session) sweepOnce(parent string, c crowd, id string) error {
	var names []string
	for _, n := range c.nodes {
		if n.ID == id && n.Session == s.hex {
			names = append(names, n.Key)
			if c.hasHeel(n) {
				names = append(names, n.heel())
			}
		}
	}
	for _, name := range c.orphans() {
		if data, _, err := s.conn.Get(parent + "/" + name); err == nil && s.ownsHeel(name, data, id) {
			names = append(names, name)
		} else if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	for _, name := range names {
		if err := s.conn.Delete(parent+"/"+name, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// sweepLater removes the entries of contenders in the background, after all their joins have landed.
func (s *session) sweepLater(left []entry) {
	done, ok := s.lent.chores.begin()
	if !ok {
		return
	}
	go func() {
		defer done()
		for _, e := range left {
			for _, f := range s.joins.flights(e.id) {
				select {
				case <-f.landed:
				case <-s.lent.chores.stop:
					return
				}
			}
			s.sweep(s.path(e.line), e.id)
		}
	}()
}

// settleRecords makes sure that no request that writes a record can be applied any more, for the reasons that
// Forget gives. It waits even if the session is lost: what is queued the Conn sends on the next one.
func (s *session) settleRecords(ctx context.Context) error {
	for _, f := range s.joins.flights(recordFlight) {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := s.sync(ctx, s.top()); !errors.Is(err, driver.ErrSessionLost) {
		return err
	}
	return nil
}

// clearLine removes from a line what contenders of this session have left when they passed.
func (s *session) clearLine(ctx context.Context, line driver.Line) error {
	if err := s.sync(ctx, s.path(line)); err != nil {
		return err
	}
	c, err := s.children(ctx, line)
	if err != nil {
		return err
	}
	return s.removeOrphans(ctx, line, c, "")
}

// giveBack is Close on a given Conn.
func (s *session) giveBack(ctx context.Context) error {
	var failed error
	var left []entry
	made, wrote := s.lent.close()
	for _, e := range made {
		err := s.Forget(ctx, e.line, e.id)
		if err == nil || errors.Is(err, driver.ErrSessionLost) {
			continue // gone, by us or with the session
		}
		failed, left = err, append(left, e)
	}
	for _, line := range s.left.lines() {
		if err := s.clearLine(ctx, line); err != nil && !errors.Is(err, driver.ErrSessionLost) {
			failed, left = err, append(left, entry{line: line})
		}
	}
	if wrote {
		if err := s.settleRecords(ctx); err != nil {
			failed = err
		}
	}
	s.finish(errClosed, false)
	s.lent.wg.Wait()
	if left != nil {
		s.sweepLater(left)
	}
	return failed
}
