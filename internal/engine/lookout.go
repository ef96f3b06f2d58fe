package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// Lineup is a whole line as one reading has shown it. It is shared: nobody changes it.
type Lineup struct {
	Places   []driver.Place // first in line first
	Sessions int            // how many different ones they have
	// Record is a version that the line's record has had, maybe sooner and
	// maybe later than the reading.
	Record driver.Version
	// Told is when the change was heard of after which the line was read again;
	// or when somebody began to survey it.
	Told time.Time

	reading int            // its number
	at      map[string]int // by key
}

// At is the index of a place, or -1.
func (l Lineup) At(p driver.Place) int {
	if i, ok := l.at[p.Key]; ok {
		return i
	}
	return -1
}

// Survey shows a contender the lineup, again and again, until judge returns
// true; then it returns nil. All who survey a line in one session share what
// that costs: a reading whenever somebody leaves the line or begins to survey
// it, and where the driver is a QueueWatcher also when somebody comes; and two
// watches, of the line and of its record.
//
// Each lineup has own in it. One may be older than the one before it, but none
// is older than own. When own is not in the line any more, Survey returns nil:
// Ahead then says why. known is the version of the record that the caller
// knows. For the rest it is like Await.
func (s *Session) Survey(ctx context.Context, line driver.Line, own driver.Place, known driver.Version, judge func(Lineup) bool) error {
	return s.wait(ctx, "await", line, func(ctx context.Context) error {
		o, reading := s.lookout(line, own, known)
		if o == nil {
			return ErrSessionLost
		}
		defer o.leave()
		for {
			lineup, changed, err := o.now()
			standing := lineup.At(own) >= 0
			switch {
			case err != nil:
				return err
			case standing && judge(lineup), !standing && lineup.reading >= reading:
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// Surveyed tells whether somebody surveys the line in this session. If nobody
// does, f is called when that begins, unless stop is called before. It must not
// block nor call Baton.
func (s *Session) Surveyed(line driver.Line, f func()) (surveyed bool, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lookouts[line] != nil {
		return true, func() {}
	}
	if s.surveys == nil {
		s.surveys = make(map[driver.Line]map[*func()]struct{})
	}
	if s.surveys[line] == nil {
		s.surveys[line] = make(map[*func()]struct{})
	}
	s.surveys[line][&f] = struct{}{}
	return false, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.surveys[line], &f); len(s.surveys[line]) == 0 {
			delete(s.surveys, line)
		}
	}
}

// lookout reads one line on behalf of all who survey it in a session. It begins
// with the first of them, and ends some time after the last: in a busy line the
// next one comes soon.
type lookout struct {
	session *Session
	line    driver.Line
	ctx     context.Context
	cancel  context.CancelFunc
	idle    *time.Timer // runs while there are no users

	mu      sync.Mutex // nobody who holds it takes the session's
	users   int
	begun   int    // readings, the one under way included
	wanted  int    // the number of the reading that somebody waits for
	stir    func() // ends the wait between two readings; nil during one
	lineup  Lineup
	changed chan struct{} // closed and replaced when lineup changes, closed when err is set
	err     error
}

// lookout adds a user to the line's lookout. reading is the number of the first
// reading that has own in it, unless own is not in the line. It returns nil
// when the session is over.
func (s *Session) lookout(line driver.Line, own driver.Place, known driver.Version) (o *lookout, reading int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost { // then wg may be waited for
		return nil, 0
	}
	if o = s.lookouts[line]; o == nil {
		o = &lookout{session: s, line: line, lineup: Lineup{Record: known}, changed: make(chan struct{})}
		o.ctx, o.cancel = context.WithCancel(s.ctx)
		o.idle = time.AfterFunc(SettleAfter, o.close)
		if s.lookouts == nil {
			s.lookouts = make(map[driver.Line]*lookout)
		}
		s.lookouts[line] = o
		for f := range s.surveys[line] {
			(*f)()
		}
		delete(s.surveys, line)
		s.wg.Go(func() { o.end(o.read()) })
		s.wg.Go(func() { o.end(o.followRecord(known)) })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle.Stop()
	o.users++
	if o.users > 1 && o.lineup.At(own) >= 0 {
		return o, o.lineup.reading
	}
	o.wanted = o.begun + 1 // not the one under way, which may have begun before own joined
	if o.stir != nil {
		o.stir()
	}
	return o, o.wanted
}

// leave takes a user away.
func (o *lookout) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users--; o.users == 0 {
		o.idle.Reset(SettleAfter)
	}
}

// close ends a lookout without users.
func (o *lookout) close() {
	o.session.mu.Lock()
	defer o.session.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == 0 {
		o.remove()
	}
}

// end ends a lookout because of an error. Its users find out by themselves what to do.
func (o *lookout) end(err error) {
	o.session.mu.Lock()
	defer o.session.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
		close(o.changed)
	}
	o.remove()
}

// remove makes sure that nobody comes any more. The caller holds both locks.
func (o *lookout) remove() {
	o.cancel()
	o.idle.Stop()
	if o.session.lookouts[o.line] == o {
		delete(o.session.lookouts, o.line)
	}
}

func (o *lookout) now() (Lineup, <-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lineup, o.changed, o.err
}

// read reads the line until something fails. One attempt has a quarter of the
// TTL, as every request.
func (o *lookout) read() error {
	for told := time.Now(); ; told = time.Now() {
		o.mu.Lock()
		o.begun++
		reading := o.begun
		o.mu.Unlock()
		var places []driver.Place
		var change func(context.Context) error
		err := o.session.retry(o.ctx, "await", o.line, func() error {
			return o.session.attempt(o.ctx, o.session.patience, func(ctx context.Context) (err error) {
				places, change, err = o.look(ctx)
				return err
			})
		})
		if err != nil {
			return err
		}
		o.show(places, reading, told)
		if err := o.pause(reading, len(places) == 0, change); err != nil {
			return err
		}
	}
}

// look reads the line. change waits until there is reason to read it again.
func (o *lookout) look(ctx context.Context) (places []driver.Place, change func(context.Context) error, err error) {
	view, change, err := o.session.can.QueueWatcher.Survey(ctx, o.line)
	return view.Ahead, change, err
}

// pause waits until there is a reason to read the line again.
func (o *lookout) pause(reading int, empty bool, change func(context.Context) error) error {
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	o.mu.Lock()
	again, idle := o.wanted > reading, o.users == 0
	o.stir = cancel
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.stir = nil
		o.mu.Unlock()
	}()
	if again {
		return nil
	}
	if idle || empty {
		<-ctx.Done()
		return o.ctx.Err()
	}
	if err := change(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return o.ctx.Err()
}

func (o *lookout) show(places []driver.Place, reading int, told time.Time) {
	if o.unmoved(places, reading) {
		return // others have come, which is nothing to those who are here
	}
	at, sessions := make(map[string]int, len(places)), make(map[string]struct{})
	for i, p := range places {
		at[p.Key] = i
		sessions[p.Session] = struct{}{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lineup = Lineup{Places: places, Sessions: len(sessions), Record: o.lineup.Record, Told: told, reading: reading, at: at}
	o.tell()
}

// unmoved tells whether nobody waits for a reading, and all who were in the line are in it still.
func (o *lookout) unmoved(now []driver.Place, reading int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.lineup.Places
	return o.wanted < reading && len(before) > 0 && len(now) >= len(before) &&
		slices.EqualFunc(before, now[:len(before)], func(a, b driver.Place) bool { return a.Key == b.Key })
}

// tell wakes the users. The caller holds o.mu.
func (o *lookout) tell() {
	if o.err == nil {
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// followRecord follows the line's record until something fails.
func (o *lookout) followRecord(known driver.Version) error {
	for {
		r, err := o.session.driver.Record(o.ctx, o.line, known)
		if err != nil {
			return err
		}
		known = r.Version
		o.mu.Lock()
		o.lineup.Record = known
		o.tell()
		o.mu.Unlock()
	}
}
