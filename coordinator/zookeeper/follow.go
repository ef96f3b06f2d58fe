package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// chase is one call of Follow.
type chase struct {
	*session
	line       driver.Line
	own, ahead string // the paths of the entries
	heel       string // that of the heel; empty when it is the entry that is watched
	sure       bool   // the one ahead has, or had, a heel
	stage      int

	main, self, other *watch // on the heel or the entry ahead; on own; on the entry ahead if main is on the heel
}

// The stages of a Follow. Most end in the first. To watch own entry then, and later that of the one ahead, is for the sake
// of an operator who deletes one of them and lets the heel stand, as the sessions of the two never do. Those watches
// are told of a leaving alone. Whoever has nobody else ahead, and no word to expect from a heel, watches own entry at once.
const (
	justHeel = iota
	ownToo   // after ownAfter
	bothToo  // after doubtAfter
)

// ownAfter is how long a Follow lasts before it is worth the price to watch its own entry.
const ownAfter = time.Second

const doubtAfter = 2 * ownAfter

// Follow waits with the watch on the heel of the one ahead, which stands if the Join has found that one. What the
// watch is told says whether it has passed. Without a heel it waits with a watch on the entry.
func (s *session) Follow(ctx context.Context, line driver.Line, own, ahead driver.Place) (passed bool, err error) {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own), checkKey(line, ahead)); err != nil {
		return false, err
	}
	mine, _ := parseNode(own.Key)
	f := &chase{session: s, line: line, own: s.below(line, own.Key), ahead: s.below(line, ahead.Key)}
	tr := s.traces.of(line, mine)
	if n, ok := parseNode(ahead.Key); ok && n.ID != "" && n.heel() != "" {
		known := tr.ahead == ahead.Key
		if f.sure = known && !tr.bare; f.sure || !known && tr.heel != "" {
			f.heel = s.below(line, n.heel())
		}
		if passed, err = f.wait(ctx); passed && f.heel != "" && n.heel() == mine.nearestHeel() {
			// Of several who follow it this one clears it away.
			tr.spent = []string{n.heel()}
			s.traces.keep(line, mine.ID, tr)
		}
		return passed, err
	}
	return f.wait(ctx)
}

// wait is session.wait for up to three watches.
func (f *chase) wait(ctx context.Context) (passed bool, err error) {
	timer := time.NewTimer(ownAfter)
	defer timer.Stop()
	for {
		again := f.presence.reconnected() // before looking, so that none is missed
		over, passed, err := f.look(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, zk.ErrConnectionClosed):
			continue
		case err != nil || over:
			return passed && err == nil, err
		}
		if over, passed, err = f.attend(ctx, again, timer); over || err != nil {
			return passed && err == nil, err
		}
	}
}

// look sets the watches that the stage asks for. It is over when one of the entries is gone.
func (f *chase) look(ctx context.Context) (over, passed bool, err error) {
	if f.stage >= ownToo {
		f.self, err = f.watch(ctx, watchKey{onPlace, f.own}, f.own)
		if err != nil {
			return false, false, err // ErrGone if it is that
		}
	}
	if f.heel != "" {
		if over, passed, err = f.lookAtHeel(ctx); over || err != nil {
			return over, passed, err
		}
		if f.heel == "" { // there was none: now for the entries
			return f.look(ctx)
		}
	}
	if f.heel != "" && f.stage < bothToo {
		return false, false, nil
	}
	w, err := f.watch(ctx, watchKey{onPlace, f.ahead}, f.ahead)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true, f.heel != "" && f.said(f.main), nil
	case f.heel != "":
		f.other = w
	default:
		f.main = w
	}
	return false, false, err
}

// lookAtHeel watches the heel. If there was none ever it is forgotten.
func (f *chase) lookAtHeel(ctx context.Context) (over, passed bool, err error) {
	if w := f.watches.find(watchKey{onHeel, f.heel}); w != nil && f.isAhead(w) && f.said(w) {
		return true, true, nil // since it joined
	}
	w, err := f.watch(ctx, watchKey{onHeel, f.heel}, f.heel)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		if f.sure {
			return true, false, nil
		}
		f.heel = ""
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	f.main, f.sure = w, true
	h, _ := read(path.Base(f.heel), w.seen.value)
	there := f.isAhead(w) // else the line was deleted, and made anew
	if there && !h.passed {
		return false, false, nil
	}
	return true, there, nil
}

// isAhead tells whether a watch is set, and on the heel of the one ahead.
func (f *chase) isAhead(w *watch) bool {
	select {
	case <-w.ready:
		h, ok := read(path.Base(f.heel), w.seen.value)
		return ok && w.err == nil && h.node.Key == path.Base(f.ahead)
	default:
		return false
	}
}

// attend waits for what happens first.
func (f *chase) attend(ctx context.Context, again <-chan struct{}, timer *time.Timer) (over, passed bool, err error) {
	select {
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	case <-f.over:
		return false, false, f.reason()
	case <-again:
		return false, false, nil
	case <-timer.C:
		if f.stage++; f.stage == ownToo && f.heel != "" {
			timer.Reset(doubtAfter - ownAfter)
		}
		return false, false, nil
	case e := <-f.main.fired:
		over, err = f.heard(f.main, e)
		if passed = f.tells(e); passed && f.removed() {
			return true, false, driver.ErrGone
		}
		return over || passed, passed, err
	case e := <-f.self.channel():
		// If own is gone the next look tells whether the session has gone with it: then it gets no answer.
		_, err = f.heard(f.self, e)
		return false, false, err
	case e := <-f.other.channel():
		over, err = f.heard(f.other, e)
		return over, over && f.said(f.main), err
	}
}

// removed tells whether the watch of the own entry has said that it is gone. Of two watches that have fired either may be taken first; the
// service sent them in order.
func (f *chase) removed() bool {
	select {
	case e := <-f.self.channel():
		f.watches.drop(f.self)
		return e.Type == zk.EventNodeDeleted
	default:
		return false
	}
}

// channel is where the watch fires; never, if there is none.
func (w *watch) channel() <-chan zk.Event {
	if w == nil {
		return nil
	}
	return w.fired
}

// heard takes note of what a watch has fired with, and tells whether its node is gone.
func (f *chase) heard(w *watch, e zk.Event) (gone bool, err error) {
	f.watches.drop(w)
	if e.Type == zk.EventNotWatching { // the Conn has lost its session, or was closed
		err = f.judge(e.Err)
	}
	return e.Type == zk.EventNodeDeleted, err
}

// tells tells whether an event says that the one ahead has passed: that
// somebody has written to its heel.
//
// Own stands in the line, so the line is the same that the watch was set in, and its numbers were not given twice.
func (f *chase) tells(e zk.Event) bool {
	return f.heel != "" && e.Type == zk.EventNodeDataChanged && e.State == zk.StateSyncConnected
}

// said tells whether the watch on the heel has fired to say so. One that passes writes to its heel before it leaves.
func (f *chase) said(w *watch) bool {
	select {
	case e := <-w.fired:
		f.watches.drop(w)
		return f.tells(e)
	default:
		return false
	}
}
