package coordinatortest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

// queue names a queue that nobody else uses, in this run or any other.
func (e *env) queue() driver.Queue { return driver.Queue("m/" + newID()) }

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// contender makes a new contender.
func contender() driver.Contender {
	return driver.Contender{ID: newID(), Mode: "x"}
}

// Harness is a service under test together with what the suite may do to it.
// Start and TTL are required.
type Harness struct {
	// Start begins one case and returns the service and its levers. It may return
	// the same service each time, since every case uses queues of its own. It runs inside
	// the Bubble; what it opens is closed by t.Cleanup.
	Start func(t *testing.T) Service

	// TTL is a time to live that the service grants exactly. Some cases wait for it
	// to pass. It must be several times Settle, and longer than a
	// driver takes to connect again after a Reset: 2 to 6 seconds on real services.
	TTL time.Duration

	// OddTTL is a time to live that the service does not grant exactly, and
	// GrantedTTL the one that it would grant in its place (lever OddTTL).
	OddTTL, GrantedTTL time.Duration

	// Patience is how long the suite waits for what must happen soon. The default is
	// 10 seconds. It only matters when something fails.
	Patience time.Duration

	// Settle is how long the suite waits to see that something does not happen, or
	// for bytes to reach the proxy. The default is 200 milliseconds.
	Settle time.Duration

	// Attempts is how often a case may be run: again only after a failure in
	// which the driver said that the service was unavailable or that the
	// session was lost. On a busy machine a real service is away now and then
	// and lets a session go. The default, right for a service that does neither
	// by itself, is 1.
	Attempts int

	// Bubble runs each case; testing/synctest.Test for a driver without I/O. Nil
	// calls it directly.
	Bubble func(t *testing.T, f func(t *testing.T))

	// Lacks names the levers that this harness does not have, with reasons.
	Lacks map[Lever]string

	// Without names the cases that cannot hold for a driver.Sharer, whose
	// layout is somebody else's, by the beginnings of their names, with
	// reasons. For other drivers it is empty.
	Without map[string]string
}

// Service is one running service. A nil function is a lever that Harness.Lacks must name.
type Service struct {
	// Connect makes a client: a driver of its own, on a link of its own.
	Connect func() (Client, error)

	// Expire ends a session at the service as an operator would, and returns when the
	// service has done it. The session's own client is not asked.
	Expire func(ctx context.Context, s driver.Session) error

	// Remove deletes the entry of a place as an operator would; its session lives on.
	Remove func(ctx context.Context, queue driver.Queue, p driver.Place) error

	// Restart stops the service and starts it again with its data.
	Restart func(ctx context.Context) error

	// Compact makes the service forget the history of its data up to now.
	Compact func(ctx context.Context) error

	// Watches counts the watches that are open at the service, of whatever client: nothing
	// else may use the service during the run. The same goes for Sessions.
	Watches func(ctx context.Context) (int, error)

	// Sessions counts the sessions that are alive at the service, of whatever client.
	Sessions func(ctx context.Context) (int, error)
}

// Client is one client of a service.
type Client struct {
	Driver driver.Driver

	// Link is the network between this client and the service.
	Link Link

	// Events counts the notifications of watches that the service has sent to this
	// client, heartbeats and replies apart. Nil is the lack of the lever Events.
	Events func() int
}

// Link holds, breaks and heals what passes between one client and the service. See the
// package comment for how a proxy does it.
type Link interface {
	// HoldRequests keeps back what the client sends from now on, until Heal.
	HoldRequests()
	// HoldReplies keeps back what the service sends from now on, until Heal.
	HoldReplies()
	// Heal ends both and passes on what was kept back, in order.
	Heal()

	// Reset breaks the client's connections; what was kept back is lost. New connections
	// work, under the holds that are in force.
	Reset()

	// Strand breaks the client's connections for the client, but requests that were
	// kept back stay under way. New connections work unheld.
	Strand()
	// Deliver lets what Strand left under way reach the service.
	Deliver()
}

// Lever names something that a harness can do.
type Lever string

// The levers. Expire, Remove, Restart, Compact, Watches and Sessions are the functions
// of Service, Events is that of Client.
const (
	Expire   Lever = "Expire"
	Remove   Lever = "Remove"
	Restart  Lever = "Restart"
	Compact  Lever = "Compact"
	Watches  Lever = "Watches"
	Sessions Lever = "Sessions"
	Events   Lever = "Events"
	Hold     Lever = "Hold"   // Link: HoldRequests, HoldReplies, Heal
	Reset    Lever = "Reset"  // Link: Reset
	Strand   Lever = "Strand" // Link: Strand, Deliver
	OddTTL   Lever = "OddTTL" // Harness.OddTTL and GrantedTTL
)

// The capabilities of driver.Capabilities that have cases. A driver without one
// is named in Harness.Lacks like a lever, with the reason.
const (
	Handoff     Lever = "Handoff"
	Converter   Lever = "Converter"
	Writer      Lever = "Writer"
	HeadWatcher Lever = "HeadWatcher"
	Operator    Lever = "Operator"

	QueueWatcher Lever = "QueueWatcher"
)

// capabilities tells which capabilities a session has.
func capabilities(s driver.Session) map[Lever]bool {
	c := s.Capabilities()
	return map[Lever]bool{
		Handoff: c.Handoff != nil, Converter: c.Converter != nil, Writer: c.Writer != nil,
		HeadWatcher: c.HeadWatcher != nil, QueueWatcher: c.QueueWatcher != nil, Operator: c.Operator != nil,
	}
}

// checkCapabilities fails on a driver that lacks a capability which Harness.Lacks does not name,
// or has one that it names.
func (h Harness) checkCapabilities(ctx context.Context, d driver.Driver) error {
	s, err := d.Open(ctx, h.TTL)
	if err != nil {
		return fmt.Errorf("harness: Open: %w", err)
	}
	for capability, there := range capabilities(s) {
		if _, lacks := h.Lacks[capability]; lacks == there {
			return fmt.Errorf("harness: the driver has the capability %s: %v; Lacks names it: %v", capability, there, lacks)
		}
	}
	return s.Close(ctx)
}

// check fails on a harness that lacks something without saying so, or says that it
// lacks something it has: both would hide what was checked.
func (h Harness) check(s Service, c Client) error {
	if h.TTL <= 0 || s.Connect == nil || c.Driver == nil {
		return fmt.Errorf("harness: TTL, Service.Connect and Client.Driver are required")
	}
	linked := c.Link != nil
	has := map[Lever]bool{
		Expire: s.Expire != nil, Remove: s.Remove != nil, Restart: s.Restart != nil,
		Compact: s.Compact != nil, Watches: s.Watches != nil, Sessions: s.Sessions != nil,
		Events: c.Events != nil, Hold: linked, Reset: linked, Strand: linked, OddTTL: h.OddTTL > 0,
	}
	for lever, there := range has {
		why, lacks := h.Lacks[lever]
		switch {
		case !there && !lacks:
			return fmt.Errorf("harness: lever %s is not there; name it in Lacks with the reason", lever)
		case lacks && why == "":
			return fmt.Errorf("harness: Lacks names lever %s without a reason", lever)
		case there && lacks && lever != Hold && lever != Reset && lever != Strand:
			return fmt.Errorf("harness: lever %s is there, yet Lacks names it", lever)
		}
	}
	for lever := range h.Lacks {
		if _, known := has[lever]; !known && !slices.Contains([]Lever{Handoff, Converter, Writer, HeadWatcher, QueueWatcher, Operator}, lever) {
			return fmt.Errorf("harness: Lacks names %q, which is no lever", lever)
		}
	}
	return nil
}

// withDefaults fills in what was left out.
func (h Harness) withDefaults() Harness {
	if h.Patience <= 0 {
		h.Patience = 10 * time.Second
	}
	if h.Settle <= 0 {
		h.Settle = 200 * time.Millisecond
	}
	h.Attempts = max(h.Attempts, 1)
	if h.Bubble == nil {
		h.Bubble = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	return h
}

// Full is a session whose capabilities are methods of its own. Wrappers that replace some
// methods of a session embed it, and return themselves by [Full.Offer].
//
// The methods of a capability that the session lacks panic: a case of the suite ends
// there, and counts as not checked.
type Full struct {
	driver.Session
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.QueueWatcher
	driver.Operator
}

// session is what the cases call.
type session = Full

// WithCapabilities returns a session with its capabilities as methods.
func WithCapabilities(s driver.Session) Full {
	c := s.Capabilities()
	full := Full{s, c.Handoff, c.Converter, c.Writer, c.HeadWatcher, c.QueueWatcher, c.Operator}
	if full.Handoff == nil {
		full.Handoff = lacking{"Handoff"}
	}
	if full.Converter == nil {
		full.Converter = lacking{"Converter"}
	}
	if full.Writer == nil {
		full.Writer = lacking{"Writer"}
	}
	if full.HeadWatcher == nil {
		full.HeadWatcher = lacking{"HeadWatcher"}
	}
	if full.QueueWatcher == nil {
		full.QueueWatcher = lacking{"QueueWatcher"}
	}
	if full.Operator == nil {
		full.Operator = lacking{"Operator"}
	}
	return full
}

// Optional are the methods of all capabilities that Full has.
type Optional interface {
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.QueueWatcher
	driver.Operator
}

// Offer returns the capabilities that the session has, as the methods of w.
func (f Full) Offer(w Optional) driver.Capabilities {
	c := f.Capabilities()
	if c.Handoff != nil {
		c.Handoff = w
	}
	if c.Converter != nil {
		c.Converter = w
	}
	if c.Writer != nil {
		c.Writer = w
	}
	if c.HeadWatcher != nil {
		c.HeadWatcher = w
	}
	if c.QueueWatcher != nil {
		c.QueueWatcher = w
	}
	if c.Operator != nil {
		c.Operator = w
	}
	return c
}

// lacking stands for a capability that the driver does not have. Its methods panic with
// itself, which ends the case.
type lacking struct{ capability Lever }

func (l lacking) Error() string {
	return fmt.Sprintf("not checked: the driver has no %s", l.capability)
}

func (l lacking) Follow(context.Context, driver.Queue, driver.Place, driver.Place) (bool, error) {
	panic(l)
}

func (l lacking) Pass(context.Context, driver.Queue, driver.Place) error { panic(l) }

func (l lacking) Convert(context.Context, driver.Queue, driver.Joined, string, []byte) (driver.Place, error) {
	panic(l)
}

func (l lacking) Write(context.Context, driver.Queue, driver.Place, []byte) error { panic(l) }

func (l lacking) Head(context.Context, driver.Queue, driver.Version) (driver.Head, error) { panic(l) }

func (l lacking) WatchQueue(context.Context, driver.Queue, func([]driver.Place) bool) error { panic(l) }

func (l lacking) Check(context.Context, driver.Queue, string, driver.Token) error { panic(l) }

func (l lacking) Remove(context.Context, driver.Queue, string, driver.Token) error { panic(l) }

func (l lacking) Queues(context.Context) ([]driver.Queue, error) { panic(l) }
