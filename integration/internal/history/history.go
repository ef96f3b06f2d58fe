package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// Forever is the end of an Excuse for one who never comes back.
const Forever int64 = math.MaxInt64

// History is what happened. It is safe for concurrent use.
type History struct {
	run uint64 // tells its records from those of other histories

	mu        sync.Mutex
	holds     []*Hold
	byID      map[string]*Hold
	accesses  []Access
	faults    []*Injected
	faultByID map[string]*Injected
	excused   []Excused
	open      map[subject][]*Grant // of this process, believed to hold
	out       *json.Encoder
	err       error // of out
}

// subject is what grants exclude each other on.
type subject struct {
	family Kind // Write stands for both sides of a read-write lock
	name   string
}

func (r *Hold) subject() subject {
	if r.Kind == Read {
		return subject{Write, r.Name}
	}
	return subject{r.Kind, r.Name}
}

// New returns an empty history.
func New() *History {
	return &History{
		run:       rand.Uint64(),
		byID:      map[string]*Hold{},
		faultByID: map[string]*Injected{},
		open:      map[subject][]*Grant{},
	}
}

// Attempt says that client is about to ask for n of limit; both are 1 for all
// kinds but Permits. Exactly one of Granted and Failed follows.
func (h *History) Attempt(client, name string, kind Kind, n, limit int) *Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &Hold{
		ID: fmt.Sprintf("%016x-%d", h.run, len(h.holds)), Client: client, Name: name, Kind: kind,
		N: n, Limit: limit, Asked: Now(),
	}
	h.holds = append(h.holds, r)
	h.byID[r.ID] = r
	h.tell(queue{Hold: r})
	return &Attempt{h, r}
}

// Attempt is a call of a recipe that has not returned.
type Attempt struct {
	h *History
	r *Hold
}

// Failed says that the call has returned an error.
func (a *Attempt) Failed(err error) {
	now := Now()
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	a.r.FailedAt, a.r.Error = now, err.Error()
	a.h.tell(queue{Hold: a.r})
}

// Granted says that the call has returned a hold with this context. Call it
// first thing. It looks at the contexts of all other holds of the name in this
// process, as any user might: those that are dead by now ended in time, though
// nobody may have been told yet.
func (a *Attempt) Granted(ctx context.Context, token coordinator.Token) *Grant {
	h, r := a.h, a.r
	g := &Grant{h: h, r: r, ctx: ctx}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := look() // not before: who was faster to write down that another hold has ended must not seem to come later
	now := at.now
	r.Granted, r.Token = now, int64(token)
	for _, other := range slices.Clone(h.open[r.subject()]) {
		if other.ctx.Err() != nil {
			other.ended(at)
		}
	}
	if ctx.Err() != nil { // lost on the way
		r.Ended, r.Cause = now, fmt.Sprint(context.Cause(ctx))
		h.tell(queue{Hold: r})
		return g
	}
	h.tell(queue{Hold: r})
	h.open[r.subject()] = append(h.open[r.subject()], g)
	g.follow()
	return g
}

// Grant is a hold.
type Grant struct {
	h     *History
	r     *Hold
	ctx   context.Context // guarded by h.mu, since Downgraded changes it
	stop  func() bool
	until func() time.Time
}

// follow needs h.mu.
func (g *Grant) follow() {
	ctx := g.ctx
	g.stop = context.AfterFunc(ctx, func() {
		at := look()
		g.h.mu.Lock()
		defer g.h.mu.Unlock()
		if g.ctx == ctx {
			g.ended(at)
		}
	})
}

// reading is one moment on both clocks: deadlines are told by the other one.
type reading struct {
	now  int64
	time time.Time
}

// look reads both clocks at once, before anything is waited for.
func look() reading { return reading{Now(), time.Now()} }

// ended needs h.mu.
func (g *Grant) ended(at reading) {
	if g.r.Ended != 0 {
		return
	}
	ended, cause := at.now, context.Cause(g.ctx)
	if cause == nil { // the clock says so, and the timer has not run
		cause = g.ctx.Err()
	}
	if g.until != nil && !errors.Is(cause, coordinator.ErrReleased) && !errors.Is(cause, coordinator.ErrClosed) {
		if late := at.time.Sub(g.until()); late > 0 {
			ended, g.r.Told = at.now-late.Nanoseconds(), at.now
		}
	}
	g.r.Ended, g.r.Cause = max(ended, g.r.Granted), cause.Error()
	g.close()
	g.h.tell(queue{Hold: g.r})
}

// close needs h.mu.
func (g *Grant) close() {
	s := g.r.subject()
	if g.h.open[s] = slices.DeleteFunc(g.h.open[s], func(o *Grant) bool { return o == g }); len(g.h.open[s]) == 0 {
		delete(g.h.open, s)
	}
}

// Until says how to learn the deadline of the hold: from then on it is dead at
// any look, though whoever waits to be told of it may be told when the machine
// has time.
func (g *Grant) Until(deadline func() time.Time) {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	g.until = deadline
}

// Releasing says that the user gives the hold up, and is about to call the
// release.
func (g *Grant) Releasing() {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.r.Releasing == 0 {
		g.r.Releasing = Now()
		g.h.tell(queue{Hold: g.r})
	}
}

// Released says that the release has returned, and how.
func (g *Grant) Released(err error) {
	now := Now()
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.r.Released != 0 {
		return
	}
	if g.r.Released = now; err != nil {
		g.r.ReleaseErr = err.Error()
	}
	if g.r.Releasing == 0 {
		g.r.Releasing = now
	}
	g.h.tell(queue{Hold: g.r})
}

// Downgraded says that the user, who holds for writing, is about to go on for
// reading only. The hold is over when the context of reading is, if one is
// given.
func (g *Grant) Downgraded(reading ...context.Context) {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	g.r.Downgraded = Now()
	if len(reading) > 0 && g.r.Ended == 0 {
		g.stop()
		g.ctx = reading[0]
		g.follow()
	}
	g.h.tell(queue{Hold: g.r})
}

// Write records a write to a register that checks tokens, and whether it
// accepted it. Values are unique.
func (h *History) Write(client, name string, token coordinator.Token, value string, begin, end int64, accepted bool) {
	h.access(Access{Client: client, Name: name, Token: int64(token), Value: value, Begin: begin, End: end, Accepted: accepted})
}

// Read records a read of a register. A holder that is going to write reads with
// its token, which the register checks and remembers like that of a write: else
// an older holder could write between. Anybody may read with token 0. Before
// the first write the value is empty.
func (h *History) Read(client, name string, token coordinator.Token, value string, begin, end int64, accepted bool) {
	h.access(Access{Client: client, Name: name, Read: true, Token: int64(token), Value: value, Begin: begin, End: end, Accepted: accepted})
}

func (h *History) access(a Access) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accesses = append(h.accesses, a)
	h.tell(queue{Access: &a})
}

// Fault counts an injected fault, which begins. The function it returns says
// that it ends and, for the time until they are granted something again, which
// clients were hit; nobody named means all.
func (h *History) Fault(kind string) (end func(clients ...string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &Injected{ID: fmt.Sprintf("%016x-%d", h.run, len(h.faults)), Kind: kind, Begin: Now()}
	h.faults = append(h.faults, f)
	h.faultByID[f.ID] = f
	h.tell(queue{Fault: f})
	return func(clients ...string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f.End, f.Clients = Now(), clients
		h.tell(queue{Fault: f})
	}
}

// Excuse says that what a client believes to hold of a name, or of all if it is
// empty, is not judged from one moment to another, because its process is
// stopped or killed.
func (h *History) Excuse(client, name, why string, from, to int64) {
	h.excuse(Excused{Client: client, Name: name, Why: why, From: from, To: to})
}

// Ousted says that since a moment an operator has taken a client's session, or
// its entries of a name, away, and has done so now: what it had asked for by
// now is not judged until another moment, the grant included whose news was
// under way. By then it must have been told.
func (h *History) Ousted(client, name string, from, to int64) {
	h.excuse(Excused{Client: client, Name: name, Why: "taken away by an operator", From: from, To: to, Before: Now()})
}

func (h *History) excuse(e Excused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.excused = append(h.excused, e)
	h.tell(queue{Excused: &e})
}
