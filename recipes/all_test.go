package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// The properties that all recipes share are tested for each of the ways below.

// askFunc acquires the name "n" on a client.
type askFunc func(context.Context, *coordinator.Client) (held, error)

// way is a method of a recipe that acquires the name "n", blocking or not.
type way struct {
	name     string
	queue    driver.Queue
	ask, try askFunc
	list     askFunc // lists the contenders and holds nothing
}

// held is a grant of any recipe.
type held struct {
	handle
	token   coordinator.Token
	session string
	ctx     context.Context
	err     func() error
	release func(context.Context) error
}

// handle has the methods of the handles of all recipes.
type handle interface {
	Token() coordinator.Token
	Session() string
	Context() context.Context
	Err() error
	Deadline() time.Time
	Sequencer(ctx context.Context) (fence.Sequencer, error)
}

// with returns an askFunc: it opens the recipe, acquires, and stores how to
// release the handle.
func with[R any, H handle](
	open func(*coordinator.Client) (R, error),
	ask func(R, context.Context) (H, error),
	release func(H, context.Context) error,
) askFunc {
	return func(ctx context.Context, c *coordinator.Client) (held, error) {
		r, err := open(c)
		if err != nil {
			return held{}, err
		}
		h, err := ask(r, ctx)
		if err != nil {
			return held{}, err
		}
		give := func(ctx context.Context) error { return release(h, ctx) }
		return held{h, h.Token(), h.Session(), h.Context(), h.Err, give}, nil
	}
}

// listing returns an askFunc that lists the contenders.
func listing[R, L any](
	open func(*coordinator.Client) (R, error), list func(R, context.Context) (L, error),
) askFunc {
	return func(ctx context.Context, c *coordinator.Client) (held, error) {
		r, err := open(c)
		if err == nil {
			_, err = list(r, ctx)
		}
		return held{}, err
	}
}

func newMutex(c *coordinator.Client) (*mutex.Mutex, error)  { return mutex.New(c, "n") }
func newLock(c *coordinator.Client) (*rwlock.RWLock, error) { return rwlock.New(c, "n") }

func newSemaphore(c *coordinator.Client) (*semaphore.Semaphore, error) {
	return semaphore.New(c, "n", 3)
}

func newElection(c *coordinator.Client) (*election.Election, error) { return election.New(c, "n") }

// ways are those that exclude themselves.
func ways() []way {
	unlock, release, resign := (*rwlock.Lock).Unlock, (*semaphore.Permit).Release,
		(*election.Term).Resign
	acquire := func(s *semaphore.Semaphore, ctx context.Context) (*semaphore.Permit, error) {
		return s.Acquire(ctx, 2)
	}
	tryAcquire := func(s *semaphore.Semaphore, ctx context.Context) (*semaphore.Permit, error) {
		return s.TryAcquire(ctx, 2)
	}
	campaign := func(e *election.Election, ctx context.Context) (*election.Term, error) {
		return e.Campaign(ctx, nil)
	}
	tryCampaign := func(e *election.Election, ctx context.Context) (*election.Term, error) {
		return e.TryCampaign(ctx, nil)
	}
	return []way{
		{
			"lock", "mutex/n", with(newMutex, (*mutex.Mutex).Lock, (*mutex.Lock).Unlock),
			with(newMutex, (*mutex.Mutex).TryLock, (*mutex.Lock).Unlock),
			listing(newMutex, (*mutex.Mutex).Contenders),
		},
		{
			"write lock", "rwlock/n", with(newLock, (*rwlock.RWLock).Lock, unlock),
			with(newLock, (*rwlock.RWLock).TryLock, unlock),
			listing(newLock, (*rwlock.RWLock).Contenders),
		},
		{
			"permits", "semaphore/n", with(newSemaphore, acquire, release),
			with(newSemaphore, tryAcquire, release),
			listing(newSemaphore, (*semaphore.Semaphore).List),
		},
		{
			"term", "election/n", with(newElection, campaign, resign),
			with(newElection, tryCampaign, resign),
			listing(newElection, (*election.Election).Candidates),
		},
	}
}

var reading = way{
	"read lock", "rwlock/n", with(newLock, (*rwlock.RWLock).RLock, (*rwlock.Lock).Unlock),
	with(newLock, (*rwlock.RWLock).TryRLock, (*rwlock.Lock).Unlock),
	listing(newLock, (*rwlock.RWLock).Contenders),
}

// every are all ways; some do not exclude themselves.
func every() []way { return append(ways(), reading) }

// other is a way that excludes this one and is excluded by it.
func (a way) other() way {
	if a.name == reading.name {
		return ways()[1]
	}
	return a
}

// reentrant are the ways whose holds can be re-entered.
func reentrant() []way { return append(ways()[:2], reading) }

// place is a service with clients on separate links, in virtual time.
type place struct {
	*testing.T
	svc   *memory.Service
	links []*memory.Driver
	all   []*coordinator.Client
}

const ttl = 10 * time.Second

// worlds runs a test for each way, on a new service. It fails if an entry,
// watch, session or goroutine is left at the end.
func worlds(t *testing.T, all []way, clients int, f func(w place, ask way)) {
	t.Helper()
	for _, ask := range all {
		t.Run(ask.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := place{T: t, svc: memory.NewService()}
				for range clients {
					link := w.svc.Driver()
					c, err := coordinator.New(link, coordinator.WithTTL(ttl), quiet)
					check(t, err)
					endWithTest(t, link, c)
					_, err = engine.Of(c).Session(context.Background())
					check(t, err)
					w.links, w.all = append(w.links, link), append(w.all, c)
				}
				f(w, ask)
				w.svc.OnRequest(nil)
				w.svc.Start()
				for _, c := range w.all {
					_ = c.Close(context.Background())
				}
				time.Sleep(2 * ttl)
				if st := w.svc.Stats(); st.Sessions != 0 || st.Watches != 0 ||
					len(w.svc.Snapshot(ask.queue)) != 0 {
					t.Errorf("left behind: %+v", st)
				}
			})
		})
	}
}

// take acquires a free name.
func (w place) take(ask way, i int) held {
	w.Helper()
	return w.taken(ask.ask, context.Background(), i)
}

//nolint:revive // the way comes first
func (w place) taken(ask askFunc, ctx context.Context, i int) held {
	w.Helper()
	h, err := ask(ctx, w.all[i])
	check(w, err)
	return h
}

func (w place) release(h held) {
	w.Helper()
	if err := h.release(context.Background()); err != nil {
		w.Error(err)
	}
}

// call is a call in a goroutine.
type call struct {
	done chan struct{}
	held held
	err  error
	at   time.Time
}

// queue starts to acquire a held name, and returns when the call is blocked.
func (w place) queue(ctx context.Context, ask way, i int) *call {
	a := &call{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.held, a.err = ask.ask(ctx, w.all[i])
		a.at = time.Now()
	}()
	synctest.Wait()
	return a
}

func (a *call) over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// granted waits without a bound: virtual time costs nothing, and a call that
// never ends fails the test.
func (w place) granted(a *call) held {
	w.Helper()
	<-a.done
	if a.err != nil {
		w.Fatal(a.err)
	}
	return a.held
}

func (w place) session(i int) *engine.Session {
	w.Helper()
	s, err := engine.Of(w.all[i]).Session(context.Background())
	check(w, err)
	return s
}

// want checks an error with errors.Is, or that it is nil.
func (w place) want(what string, err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("%s: %v, want %v", what, err, want)
	}
}

// alone checks that a hold is alive and that its entry is the only one.
func (w place) alone(ask way, h held) {
	w.Helper()
	if n := len(w.svc.Snapshot(ask.queue)); h.err() != nil || n != 1 {
		w.Errorf("the holder was disturbed: %v, %d in the queue", h.err(), n)
	}
}

func lost(err error) bool { return errors.Is(err, coordinator.ErrSessionLost) }
