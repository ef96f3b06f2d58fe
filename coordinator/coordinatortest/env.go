package coordinatortest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

type session = Full

// env is what a case works with. Its methods fail the case by panicking with a
// *failure, which caught returns. Those that open something are for the
// goroutine of the case only.
type env struct {
	Harness
	svc     Service
	ctx     context.Context // ends when the case does
	cancel  context.CancelFunc
	group   sync.WaitGroup // the goroutines of the case
	clients []Client
	opened  []session
}

func newEnv(t *testing.T, h Harness) *env {
	e := &env{Harness: h, svc: h.Start(t)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// close releases everything in the order in which a hanging call is most likely
// to end: contexts, links, sessions, drivers.
func (e *env) close() error {
	e.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), e.Patience)
	defer cancel()
	for _, c := range e.clients {
		if e.has(Network) {
			c.Link.Heal()
		}
	}
	// A goroutine of its own: even a Close that ignores ctx must not hang the
	// run.
	e.group.Go(func() {
		for _, s := range e.opened {
			_ = s.Close(ctx) // the case has judged it already; lost ones fail
		}
		for _, c := range e.clients {
			_ = c.Driver.Close(ctx)
		}
	})
	done := make(chan struct{})
	go func() {
		e.group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(2 * e.Patience):
		return &failure{
			saw:  "calls were still waiting after their contexts, sessions and drivers were closed",
			want: "every call ends",
		}
	}
}

// has reports whether there are these levers or capabilities.
func (e *env) has(levers ...Lever) bool {
	for _, l := range levers {
		if _, lacks := e.Lacks[l]; lacks {
			return false
		}
	}
	return true
}

func (e *env) fail(want, saw string, args ...any) {
	f := &failure{saw: fmt.Sprintf(saw, args...), want: want}
	for _, a := range args {
		if err, ok := a.(error); ok {
			f.cause = err
		}
	}
	panic(f)
}

func (e *env) ok(err error, what string) {
	if err != nil {
		e.fail("no error", "%s: %v", what, err)
	}
}

func (e *env) is(err error, what string, wanted ...error) {
	for _, w := range wanted {
		if errors.Is(err, w) {
			return
		}
	}
	e.fail(fmt.Sprintf("one of %q", wanted), "%s: %v", what, err)
}

// in returns a context for one call. It ends with the case or after d.
func (e *env) in(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(e.ctx, d)
	// Cancelled by the end of the case: the call may outlive the case's next
	// steps.
	context.AfterFunc(e.ctx, cancel)
	return ctx
}

// soon returns a context for a call that has to succeed.
func (e *env) soon() context.Context { return e.in(e.Patience) }

// settle waits until what should not happen would have happened.
func (e *env) settle() { time.Sleep(e.Settle) }

// jitter waits for a random time below the limit: cases repeat a race until its
// interleavings have been met.
func (e *env) jitter(limit time.Duration) { sleep(e.ctx, random(limit)) }

func random(limit time.Duration) time.Duration {
	return time.Duration(mathrand.Int64N(int64(limit)))
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *env) eventually(want string, holds func() bool) { e.within(e.Patience, want, holds) }

func (e *env) within(d time.Duration, want string, holds func() bool) {
	for end := time.Now().Add(d); !holds(); time.Sleep(e.Settle / 20) {
		if time.Now().After(end) {
			e.fail(want, "it did not happen within %v", d)
		}
	}
}

// again repeats a call while the service is unavailable, as package coordinator
// does: it is how a client finds its way back after its connections were
// broken.
func (e *env) again(call request) error {
	end := time.Now().Add(e.Patience)
	for {
		err := call(e.soon())
		if !errors.Is(err, driver.ErrUnavailable) || time.Now().After(end) {
			return err
		}
		time.Sleep(e.Settle / 4)
	}
}

type request = func(ctx context.Context) error

// errOf is the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }

// outcome is a call that runs on its own.
type outcome struct {
	done chan struct{}
	err  error
}

// start runs a call in a goroutine of the case. A failure in it is its error.
func (e *env) start(call func() error) *outcome {
	o := &outcome{done: make(chan struct{})}
	e.group.Go(func() {
		defer close(o.done)
		o.err = caught(call)
	})
	return o
}

func (o *outcome) ended() bool { return closed(o.done) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (e *env) ends(o *outcome, d time.Duration, what string) error {
	select {
	case <-o.done:
	case <-time.After(d):
		e.fail(what+" ends", "%s was still waiting after %v", what, d)
	}
	return o.err
}

func (e *env) crowd(n int, what string, run func(i int)) {
	var all []*outcome
	for i := range n {
		all = append(all, e.start(func() error {
			run(i)
			return nil
		}))
	}
	for _, o := range all {
		// Each may have to wait for all others: many turns, so more than one
		// patience.
		e.ok(e.ends(o, 3*e.Patience, what), what)
	}
}

func (e *env) waiting(o *outcome, what, after string) {
	if o.ended() {
		e.fail(what+" goes on waiting", "%s returned %v after %s", what, o.err, after)
	}
}

// held makes sure that the link held a call up: else the case would check
// nothing.
func (e *env) held(o *outcome) {
	if o.ended() {
		e.fail("the harness holds the call up", "the call returned %v in spite of the link", o.err)
	}
}

func (e *env) connect() Client {
	c, err := e.svc.Connect()
	e.ok(err, "Connect of the harness")
	e.clients = append(e.clients, c)
	return c
}

// open opens a session on a new client and keeps it renewed until the case
// ends.
func (e *env) open() session {
	return e.openOn(e.connect())
}

// openOn opens one more session on a client and keeps it renewed.
func (e *env) openOn(c Client) session {
	s := e.openUntended(c)
	e.group.Go(func() {
		for sleep(e.ctx, e.TTL/3) {
			// Failures are the business of the case: it may have broken the
			// link.
			ctx, cancel := context.WithTimeout(e.ctx, e.TTL/3)
			_ = s.Renew(ctx)
			cancel()
		}
	})
	return s
}

// openUntended opens a session that nobody renews.
func (e *env) openUntended(c Client) session {
	s, err := c.Driver.Open(e.soon(), e.TTL)
	e.ok(err, "Open")
	full := WithCapabilities(s)
	e.opened = append(e.opened, full)
	return full
}

func (e *env) three() []session {
	shared := e.connect()
	return []session{e.openOn(shared), e.openOn(shared), e.open()}
}

func (e *env) expire(s session) { e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness") }

func (e *env) delete(queue driver.Queue, p driver.Place) {
	e.ok(e.svc.Remove(e.soon(), queue, p), "Remove of the harness")
}

func (e *env) restart() { e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness") }

func (e *env) compact() { e.ok(e.svc.Compact(e.soon()), "Compact of the harness") }

func (e *env) watches() int  { return e.tally(Watches, e.svc.Watches) }
func (e *env) sessions() int { return e.tally(Sessions, e.svc.Sessions) }

// tally counts what there is at the service, if the harness can.
func (e *env) tally(lever Lever, by func(ctx context.Context) (int, error)) (n int) {
	if e.has(lever) {
		var err error
		n, err = by(e.soon())
		e.ok(err, string(lever)+" of the harness")
	}
	return n
}

func (e *env) fewWatches(n int, when string) {
	e.eventually(fmt.Sprintf("at most %d watches %s", n, when),
		func() bool { return e.watches() <= n })
}

// cut holds both directions of a link.
func cut(l Link) {
	l.HoldRequests()
	l.HoldReplies()
}

// mend lets a link pass again. What was held is lost.
func mend(l Link) {
	l.Reset()
	l.Heal()
}

// queue names a queue that nobody else uses, in this run or any other.
func (e *env) queue() driver.Queue { return driver.Queue("m/" + newID()) }

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
