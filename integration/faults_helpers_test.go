package integration_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/ways"
)

// A fault affects everything that a session or a process holds. So these tests
// make requests in all recipes, each on a name of its own, inject the fault
// once, and then check each of them.

func init() { proc.Register("actor", actorWorker) }

// together runs a test against all services, in parallel: these tests mostly
// wait for a TTL.
func together(t *testing.T, test func(t *testing.T, s site)) {
	t.Helper()
	each(t, func(t *testing.T, s site) {
		t.Parallel()
		test(t, s)
	})
}

// way is a way of asking that waits in real time.
type way ways.Way

const (
	aLock   = way(ways.Lock)
	aWrite  = way(ways.Write)
	aRead   = way(ways.Read)
	aTerm   = way(ways.Term)
	twoOf   = way(ways.Two)
	longTTL = 20 * time.Second
)

// alone are the ways that exclude all others.
var alone = []way{aLock, aWrite, aTerm, way(ways.All)}

// hold is a hold of any recipe.
type hold struct{ ways.Hold }

// ask makes a request and waits for the grant.
func (w way) ask(ctx context.Context, c *coordinator.Client, name string) (hold, error) {
	h, err := ways.Way(w).Ask(ctx, c, name)
	return hold{h}, err
}

// queued waits until n contenders are queued.
func (w way) queued(t testing.TB, c *coordinator.Client, name string, n int) {
	t.Helper()
	awaitCount(t, n, func(ctx context.Context) (int, error) { return ways.Way(w).Count(ctx, c, name) })
}

// take makes a request that must succeed.
func (w way) take(t testing.TB, c *coordinator.Client, name string) hold {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	h, err := w.ask(ctx, c, name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h hold) mustRelease(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
}

// pending is a request in the background.
type pending struct {
	t    testing.TB
	what string
	done chan struct{}
	hold hold
	err  error
	at   time.Time
}

func (w way) begin(ctx context.Context, t testing.TB, c *coordinator.Client, name string) *pending {
	p := &pending{t: t, what: string(w) + " of " + name, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.hold, p.err = w.ask(ctx, c, name)
		p.at = time.Now()
	}()
	return p
}

// queue is begin, and waits until the request is queued as the n-th.
func (w way) queue(t testing.TB, c *coordinator.Client, name string, n int) *pending {
	t.Helper()
	p := w.begin(context.Background(), t, c, name)
	w.queued(t, c, name, n)
	return p
}

func (p *pending) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// await waits for the outcome.
func (p *pending) await() {
	p.t.Helper()
	await.Receive(p.t, "the outcome of "+p.what, p.done)
}

// granted waits for the grant.
func (p *pending) granted() hold {
	p.t.Helper()
	p.await()
	if p.err != nil {
		p.t.Fatalf("%s: %v", p.what, p.err)
	}
	return p.hold
}

// grantedBy waits for a grant that must come before end, whenever the test
// checks it.
func (p *pending) grantedBy(end time.Time) hold {
	p.t.Helper()
	h := p.granted()
	if p.at.After(end) {
		p.t.Errorf("%s: granted %v too late", p.what, p.at.Sub(end))
	}
	return h
}

// order is an instruction to an actor: a way of asking, or one of the words
// below.
type order struct {
	Do   way
	Name string
}

const (
	writeOn way = "write on" // lock, write to the register until the loss is noticed, and write once more
	giveUp  way = "release"
	quit    way = "exit" // without closing anything
)

// event is an actor's report about one name.
type event struct {
	Name, What string
	Token      int64
	Session    string
	Err        string
	Lost       bool // Err is ErrSessionLost
}

const (
	isGranted = "granted"
	isDead    = "granted, and dead" // the call returned a hold whose Err is not nil
	isRefused = "not granted"
	isEnded   = "ended"
	isWrite   = "write"
)

func tell(name, what string, h hold, err error) event {
	e := event{Name: name, What: what, Token: int64(h.Token), Session: h.Session}
	if err != nil {
		e.Err, e.Lost = err.Error(), errors.Is(err, coordinator.ErrSessionLost)
	}
	return e
}

// actorWorker is a process that makes requests in all recipes with one client:
// url.
func actorWorker(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open(args[0], silent)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	holds := map[string]hold{}
	perform := func(o order) {
		w := o.Do
		if w == writeOn {
			w = aLock
		}
		h, err := w.ask(ctx, c, o.Name)
		switch {
		case err != nil:
			_ = io.Send(tell(o.Name, isRefused, hold{}, err))
			return
		case h.Err() != nil:
			_ = io.Send(tell(o.Name, isDead, h, h.Err()))
			return
		}
		mu.Lock()
		holds[o.Name] = h
		mu.Unlock()
		_ = io.Send(tell(o.Name, isGranted, h, nil))
		context.AfterFunc(h.Context, func() { _ = io.Send(tell(o.Name, isEnded, h, context.Cause(h.Context))) })
		for alive := o.Do == writeOn; alive; {
			// It finishes the write that it has begun, whatever the check says.
			alive = h.Err() == nil
			await.For(ctx, time.Millisecond)
			_ = io.Send(tell(o.Name, isWrite, h, nil))
		}
	}
	for {
		var o order
		if err := io.Recv(ctx, &o); err != nil {
			return nil //nolint:nilerr // the test is over
		}
		switch o.Do {
		case quit:
			os.Exit(3)
		case giveUp:
			mu.Lock()
			h := holds[o.Name]
			mu.Unlock()
			go func() { _ = h.Release(ctx) }()
		default:
			go perform(o)
		}
	}
}

// actor is the test's handle of such a process.
type actor struct {
	*proc.Child
	t      testing.TB
	mu     sync.Mutex
	events map[string][]event
	// register receives each write, in the order of arrival.
	register func(event)
}

func newActor(t testing.TB, url string) *actor {
	t.Helper()
	a := &actor{Child: proc.Start(t, "actor", url), t: t, events: map[string][]event{}}
	go func() {
		for {
			var e event
			err := a.TryRecv(&e, time.Hour)
			if err != nil {
				return // it was killed, at the end of the test if not before
			}
			a.note(e)
		}
	}()
	return a
}

func (a *actor) note(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.What == isWrite {
		a.register(e)
		return
	}
	a.events[e.Name] = append(a.events[e.Name], e)
}

func (a *actor) orders(w way, name string) { a.t.Helper(); a.Send(order{Do: w, Name: name}) }

// told waits for the i-th event of a name.
func (a *actor) told(name string, i int) event {
	a.t.Helper()
	var e event
	await.Until(a.t, "a report about "+name, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.events[name]) <= i {
			return false
		}
		e = a.events[name][i]
		return true
	})
	return e
}

// takes makes the actor request a free name.
func (a *actor) takes(w way, name string) event {
	a.t.Helper()
	a.orders(w, name)
	e := a.told(name, 0)
	if e.What != isGranted {
		a.t.Fatalf("%s: %+v", name, e)
	}
	return e
}

// waits makes the actor request a taken name, and waits until it is queued as
// the n-th.
func (a *actor) waits(w way, c *coordinator.Client, name string, n int) {
	a.t.Helper()
	a.orders(w, name)
	w.queued(a.t, c, name, n)
}

// fresh returns a function that makes names for the parts of a test.
func fresh(t testing.TB) func(part string) string {
	base := servers.Name(t)
	if len(base) > 150 {
		base = base[len(base)-150:]
	}
	return func(part string) string { return base + "-" + strings.ReplaceAll(part, " ", "-") }
}
