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

// env is the environment of a case. Its methods fail the case by panicking with
// a *failure, which caught returns. Only the goroutine of the case may open
// clients and sessions.
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
	// In a goroutine, because a Close that ignores ctx must not hang the run.
	e.group.Go(func() {
		for _, s := range e.opened {
			_ = s.Close(ctx) // fails for lost sessions
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

// has reports whether harness and driver have these levers or capabilities.
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
	context.AfterFunc(e.ctx, cancel)
	return ctx
}

// soon returns a context for a call that must succeed.
func (e *env) soon() context.Context { return e.in(e.Patience) }

// settle waits long enough to see that something does not happen.
func (e *env) settle() { time.Sleep(e.Settle) }

// jitter waits for a random time below limit. Cases repeat races with it to
// meet all interleavings.
func (e *env) jitter(limit time.Duration) { sleep(e.ctx, random(limit)) }

func random(limit time.Duration) time.Duration {
	return time.Duration(mathrand.Int64N(int64(limit)))
}

// sleep returns false if ctx ends first.
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
			e.fail(want, "not so within %v", d)
		}
	}
}

// again repeats a call while the service is unavailable, as the engine does.
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

// errOf returns the error of a call with two results.
func errOf[T any](_ T, err error) error { return err }

// outcome is the result of a call in a goroutine.
type outcome struct {
	done chan struct{}
	err  error
}

// start runs a call in a goroutine. It turns a failure into an error.
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

// concurrently fails with the first error: a goroutine that has failed may
// leave an entry behind, for which all others wait.
func (e *env) concurrently(n int, what string, run func(i int)) {
	ended := make(chan *outcome, n)
	for i := range n {
		o := e.start(func() error {
			run(i)
			return nil
		})
		e.group.Go(func() {
			<-o.done
			ended <- o
		})
	}
	for range n {
		select {
		case o := <-ended:
			e.ok(o.err, what)
		case <-time.After(3 * e.Patience): // more than Patience: each may wait for all others
			e.fail(what+" ends", "%s was still waiting after %v", what, 3*e.Patience)
		}
	}
}

func (e *env) waiting(o *outcome, what, after string) {
	if o.ended() {
		e.fail(what+" goes on waiting", "%s returned %v after %s", what, o.err, after)
	}
}

// held checks the harness: the link must have held a call.
func (e *env) held(o *outcome) {
	if o.ended() {
		e.fail("the link holds the call", "the call returned %v", o.err)
	}
}

func (e *env) connect() Client {
	c, err := e.svc.Connect()
	e.ok(err, "Connect of the harness")
	e.clients = append(e.clients, c)
	return c
}

// open opens a session on a new client, and renews it until the case ends.
func (e *env) open() session {
	return e.openOn(e.connect())
}

// openOn opens one more session on a client, and renews it.
func (e *env) openOn(c Client) session {
	s := e.openUnrenewed(c)
	e.group.Go(func() {
		for sleep(e.ctx, e.TTL/3) {
			ctx, cancel := context.WithTimeout(e.ctx, e.TTL/3)
			_ = s.Renew(ctx) // the case may have broken the link
			cancel()
		}
	})
	return s
}

// openUnrenewed opens a session and does not renew it.
func (e *env) openUnrenewed(c Client) session {
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

func (e *env) stall(c Client) (heal func()) {
	heal, err := e.svc.Stall(e.soon(), c)
	e.ok(err, "Stall of the harness")
	return heal
}

func (e *env) compact() { e.ok(e.svc.Compact(e.soon()), "Compact of the harness") }

func (e *env) watches() int  { return e.tally(Watches, e.svc.Watches) }
func (e *env) sessions() int { return e.tally(Sessions, e.svc.Sessions) }

// tally returns a count of the harness, or 0 if it lacks the lever.
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

// resetAndHeal reconnects. Held messages are lost.
func resetAndHeal(l Link) {
	l.Reset()
	l.Heal()
}

// queue returns the name of a queue that no other case uses, in any run.
func (e *env) queue() driver.Queue { return driver.Queue("m/" + newID()) }

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
