package coordinatortest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// env is what a case works with. Its methods fail the case by panicking with a
// *failure; they are for the goroutine of the case only.
type env struct {
	Harness
	svc     Service
	ctx     context.Context // ends when the case does
	cancel  context.CancelFunc
	group   group
	clients []Client
	opened  []session
	lacks   atomic.Pointer[lacking] // a capability that a call in the background wanted
}

func newEnv(t *testing.T, h Harness) *env {
	e := &env{Harness: h, svc: h.Start(t)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// close gives everything back, in the order in which a hanging call is most likely to
// end: contexts, links, sessions, drivers.
func (e *env) close() error {
	e.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), e.Patience)
	defer cancel()
	for _, c := range e.clients {
		if c.Link != nil && e.has(Hold) {
			c.Link.Heal()
		}
	}
	// A goroutine of its own: even a Close that ignores ctx must not hang the run.
	e.group.spawn(func() {
		for _, s := range e.opened {
			_ = s.Close(ctx) // the case has judged it already; lost ones fail
		}
		for _, c := range e.clients {
			_ = c.Driver.Close(ctx)
		}
	})
	if !e.group.wait(2 * e.Patience) {
		return &failure{saw: "calls were still waiting after their contexts, sessions and drivers were closed", want: "every call ends"}
	}
	return nil
}

func (e *env) has(l Lever) bool { _, lacks := e.Lacks[l]; return !lacks }

// fail ends the case.
func (e *env) fail(want, saw string, args ...any) {
	f := &failure{saw: fmt.Sprintf(saw, args...), want: want}
	for _, a := range args {
		if err, ok := a.(error); ok {
			f.cause = err
		}
	}
	panic(f)
}

// ok fails the case unless err is nil.
func (e *env) ok(err error, what string) {
	if err != nil {
		e.fail("no error", "%s: %v", what, err)
	}
}

// is fails the case unless err is one of the wanted errors.
func (e *env) is(err error, what string, wanted ...error) {
	for _, w := range wanted {
		if errors.Is(err, w) {
			return
		}
	}
	e.fail(fmt.Sprintf("%s: one of %q", what, wanted), "%s: %v", what, err)
}

// in returns a context for one call. It ends with the case or after d.
func (e *env) in(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(e.ctx, d)
	// Cancelled by the end of the case: the call may outlive the case's next steps.
	context.AfterFunc(e.ctx, cancel)
	return ctx
}

// soon returns a context for a call that has to succeed.
func (e *env) soon() context.Context { return e.in(e.Patience) }

// settle waits until what should not happen would have happened.
func (e *env) settle() { time.Sleep(e.Settle) }

// eventually waits for a condition.
func (e *env) eventually(want string, holds func() bool) {
	for end := time.Now().Add(e.Patience); !holds(); time.Sleep(e.Settle / 20) {
		if time.Now().After(end) {
			e.fail(want, "it did not happen within %v", e.Patience)
		}
	}
}

// again repeats a call while the service is unavailable, as package coordinator does: it is how
// a client finds its way back after its connections were broken.
func (e *env) again(call func(ctx context.Context) error) error {
	end := time.Now().Add(e.Patience)
	for {
		err := call(e.soon())
		if !errors.Is(err, driver.ErrUnavailable) || time.Now().After(end) {
			return err
		}
		time.Sleep(e.Settle / 4)
	}
}

// connect makes one more client.
func (e *env) connect() Client {
	c, err := e.svc.Connect()
	e.ok(err, "Connect of the harness")
	e.clients = append(e.clients, c)
	return c
}

// open opens a session on a new client and keeps it renewed until the case ends.
func (e *env) open() session {
	return e.openOn(e.connect())
}

// openOn opens one more session on a client and keeps it renewed.
func (e *env) openOn(c Client) session {
	s := e.openUntended(c)
	e.group.spawn(func() {
		for sleep(e.ctx, e.TTL/3) {
			// Failures are the business of the case: it may have broken the link.
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

// line names a line that nobody else uses, in this run or any other.
func (e *env) line() driver.Line { return driver.Line("m/" + newID()) }

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// contender makes a new contender.
func contender() driver.Contender {
	return driver.Contender{ID: newID(), Mode: "x"}
}
