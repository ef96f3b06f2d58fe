package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
	"github.com/baton-go/baton/internal/patience"
)

// A wait rests on one watch at one member. If that member stops to apply what
// the others do, it sends no events, while the session lives on: its renewals
// go to the leader. The contender and all behind it would wait for ever.
//
// So no wait rests on one member for longer than a TTL. While a session waits,
// it reads the newest revision by quorum, once in two thirds of a TTL, for all
// its waits together. If that is a new one, it makes sure that the member
// behind its watches shows it: see watch.Watcher.Refresh. That is one small
// request at a time, or two; none without a wait.
//
// The watch of the sentinel is no such wait: renewals show the end of a lease,
// too. But each refresh reads the sentinel, and its watch moves with the
// others.

// longestRest bounds how long a wait rests with a long TTL.
const longestRest = 30 * time.Second

// rest is how long a wait may rest on one member.
func (s *Session) rest() time.Duration { return min(s.TTL(), longestRest) }

// Await is watch.Watcher.Await, with an error of the contract. What tell reads
// at the first message, Created, is bounded by within. At later ones tell has
// to do that.
func (s *Session) Await(
	ctx context.Context, key string, opts []clientv3.OpOption, tell watch.Tell,
) error {
	s.waits.begin(s)
	defer s.waits.end()
	return s.await(ctx, key, opts, tell)
}

// await is Await of a wait that causes no refresh.
func (s *Session) await(
	ctx context.Context, key string, opts []clientv3.OpOption, tell watch.Tell,
) error {
	bounded := func(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error) {
		if !resp.Created {
			return tell(ctx, resp)
		}
		err = s.within(ctx, func(ctx context.Context) error {
			done, err = tell(ctx, resp)
			return err
		})
		return done, err
	}
	err := s.watcher.Await(ctx, key, opts, bounded)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.life.Err() != nil:
		return driver.ErrSessionLost
	}
	return s.Failed(ctx, err)
}

var errSilent = errors.New("etcd: a member has not answered a read for a quarter of the TTL")

// within bounds a read of a wait, which has no deadline of its own. A member
// may take a request and never answer it. The caller of the wait repeats it,
// and Get asks two members then.
func (s *Session) within(ctx context.Context, read func(context.Context) error) error {
	bound, stop := patience.Bind(ctx, s.patience.Context())
	defer stop()
	err := read(bound)
	if err != nil && bound.Err() != nil && ctx.Err() == nil && s.life.Err() == nil {
		s.Conn.noteSilence()
		return errSilent
	}
	return err
}

// waits counts the waits of a session, and refreshes them.
type waits struct {
	mu      sync.Mutex
	n       int
	timer   *time.Timer    // of the next refresh, nil before the first wait
	armed   bool           // the timer runs, or a refresh
	stopped bool           // no refresh begins any more
	running sync.WaitGroup // the refresh
}

// begin is called before a wait, end after it.
func (w *waits) begin(s *Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; !w.armed && !w.stopped {
		w.armed = true
		w.arm(s)
	}
}

func (w *waits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
}

// arm starts the timer. The caller holds w.mu.
func (w *waits) arm(s *Session) {
	if pause := s.rest() * 2 / 3; w.timer == nil {
		w.timer = time.AfterFunc(pause, func() { w.fire(s) })
	} else {
		w.timer.Reset(pause)
	}
}

// fire refreshes the waits if there are any. A wait that begins later starts
// the timer again.
func (w *waits) fire(s *Session) {
	w.mu.Lock()
	if w.armed = w.n > 0 && !w.stopped; !w.armed {
		w.mu.Unlock()
		return
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()
	s.refresh()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.arm(s)
	}
}

// stop waits for the end of a running refresh. Session.life has ended, so that
// is at once.
func (w *waits) stop() {
	w.mu.Lock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}

// quorumReads is how often a refresh tries to read: a request may go to the
// member that does not apply, too.
const quorumReads = 3

// refresh makes sure that the watches' member follows the others. It does
// nothing while there is no quorum.
func (s *Session) refresh() {
	patience := s.rest() / 8 // of one member's answer
	for range quorumReads {
		ctx, cancel := context.WithTimeout(s.life, patience)
		r, err := s.Get(ctx, s.ReadSentinel())
		cancel()
		switch {
		case s.life.Err() != nil:
			return
		case err != nil:
			s.Conn.noteSilence()
			continue
		}
		if _, err := s.JudgeSentinel(r.Kvs); err == nil {
			raise(&s.quorum, r.Rev)
			s.watcher.Refresh(s.Sentinel.Key, r.Rev, patience)
		}
		return
	}
}
