package zookeeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// lingerFor is how long the heel of one that has passed is left to whoever it passed to. That one deletes it when it leaves, if
// there is such a one.
const lingerFor = time.Second

// leftovers are the heels that a session has left when its contenders passed: of each line the latest, since the one before has been
// of use to whoever came in between. As long as a session goes on passing in a line, nothing is sent.
type leftovers struct {
	clear func() // what the timer runs

	mu      sync.Mutex
	m       map[driver.Line]leftover
	timer   *time.Timer // nil when there is nothing to clear
	stopped bool
}

type leftover struct {
	heel    string
	version int32 // of its data
	since   time.Time
}

func newLeftovers() *leftovers { return &leftovers{m: make(map[driver.Line]leftover)} }

// note notes a heel that is left, or about to be, and reports whether there is room for it.
func (l *leftovers) note(line driver.Line, heel string, version int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.m[line]; l.stopped || !ok && len(l.m) >= maxBusy {
		return false
	}
	l.m[line] = leftover{heel, version, time.Now()}
	if l.timer == nil {
		l.timer = time.AfterFunc(lingerFor, l.clear)
	}
	return true
}

// due returns those that have lingered for long enough, and sets the timer for the rest.
func (l *leftovers) due() map[driver.Line]leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	due := make(map[driver.Line]leftover)
	next := lingerFor
	for line, left := range l.m {
		if wait := lingerFor - time.Since(left.since); wait <= 0 {
			due[line] = left
			delete(l.m, line)
		} else {
			next = min(next, wait)
		}
	}
	if len(l.m) > 0 && !l.stopped {
		l.timer = time.AfterFunc(next, l.clear)
	}
	return due
}

func (l *leftovers) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// clearLeft deletes what has lingered. A heel of that name that does not say that it was passed is another one, in a line that
// was removed and made anew: hence the version.
func (s *session) clearLeft() {
	if !s.begin() {
		return
	}
	defer s.running.Done()
	for line, left := range s.left.due() {
		heel := s.below(line, left.heel)
		_, err := call(context.Background(), s, func() (struct{}, error) {
			return struct{}{}, s.conn.Delete(heel, left.version)
		})
		if errors.Is(err, driver.ErrUnavailable) {
			s.left.again(line, left)
		}
	}
}

// again keeps what could not be deleted, unless there is something later.
func (l *leftovers) again(line driver.Line, left leftover) {
	l.mu.Lock()
	_, ok := l.m[line]
	l.mu.Unlock()
	if !ok {
		l.note(line, left.heel, left.version)
	}
}

// shed deletes the heel of an entry that somebody else has deleted.
func (s *session) shed(ctx context.Context, line driver.Line, heel string) {
	if err := s.remove(ctx, s.below(line, heel)); err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.left.note(line, heel, -1)
	}
}
