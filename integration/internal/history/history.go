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

// Forever is the end of an Excuse for a client that never comes back.
const Forever int64 = math.MaxInt64

// History is a record of holds, accesses and faults. It is safe for concurrent
// use.
type History struct {
	run uint64 // distinguishes its records from other histories'

	mu        sync.Mutex
	holds     []*Hold
	byID      map[string]*Hold
	accesses  []Access
	faults    []*Injected
	faultByID map[string]*Injected
	excused   []Excused
	open      map[subject][]*Grant // current grants of this process
	out       *json.Encoder
	err       error // of out
}

// subject is a family of grants that exclude each other.
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

// Attempt records that client is about to request n of limit permits; both are
// 1 for other kinds. Exactly one of Granted and Failed must follow.
func (h *History) Attempt(client, name string, kind Kind, n, limit int) *Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &Hold{
		ID: fmt.Sprintf("%016x-%d", h.run, len(h.holds)), Client: client, Name: name, Kind: kind,
		N: n, Limit: limit, Asked: Now(),
	}
	h.holds = append(h.holds, r)
	h.byID[r.ID] = r
	h.tell(line{Hold: r})
	return &Attempt{h, r}
}

// Attempt is a call of a recipe that has not returned.
type Attempt struct {
	h *History
	r *Hold
}

// Failed records that the call has returned an error.
func (a *Attempt) Failed(err error) {
	now := Now()
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	a.r.FailedAt, a.r.Error = now, err.Error()
	a.h.tell(line{Hold: a.r})
}

// Granted records that the call has returned a hold with this context. Call it
// right after the call. It checks the contexts of all other holds of the name
// in this process, as their users could: those that have ended by now ended in
// time, even if their users were not notified yet.
func (a *Attempt) Granted(ctx context.Context, token coordinator.Token) *Grant {
	h, r := a.h, a.r
	g := &Grant{h: h, r: r, ctx: ctx}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := readClocks() // under the lock: a hold whose end was recorded before must not seem to end later
	now := at.now
	r.Granted, r.Token = now, int64(token)
	for _, other := range slices.Clone(h.open[r.subject()]) {
		if other.ctx.Err() != nil {
			other.ended(at)
		}
	}
	if ctx.Err() != nil { // lost in flight
		r.Ended, r.Cause = now, fmt.Sprint(context.Cause(ctx))
		h.tell(line{Hold: r})
		return g
	}
	h.tell(line{Hold: r})
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
		at := readClocks()
		g.h.mu.Lock()
		defer g.h.mu.Unlock()
		if g.ctx == ctx {
			g.ended(at)
		}
	})
}

// reading is one moment on both clocks; deadlines use the other one.
type reading struct {
	now  int64
	time time.Time
}

// readClocks reads both clocks.
func readClocks() reading { return reading{Now(), time.Now()} }

// ended needs h.mu.
func (g *Grant) ended(at reading) {
	if g.r.Ended != 0 {
		return
	}
	ended, cause := at.now, context.Cause(g.ctx)
	if cause == nil { // the deadline has passed, and the timer has not run
		cause = g.ctx.Err()
	}
	if g.until != nil && !errors.Is(cause, coordinator.ErrReleased) && !errors.Is(cause, coordinator.ErrClosed) {
		if late := at.time.Sub(g.until()); late > 0 {
			ended, g.r.Told = at.now-late.Nanoseconds(), at.now
		}
	}
	g.r.Ended, g.r.Cause = max(ended, g.r.Granted), cause.Error()
	g.close()
	g.h.tell(line{Hold: g.r})
}

// close needs h.mu.
func (g *Grant) close() {
	s := g.r.subject()
	if g.h.open[s] = slices.DeleteFunc(g.h.open[s], func(o *Grant) bool { return o == g }); len(g.h.open[s]) == 0 {
		delete(g.h.open, s)
	}
}

// Until sets the function that returns the deadline of the hold. After the
// deadline the hold counts as ended, even if a stalled machine delays the
// notification.
func (g *Grant) Until(deadline func() time.Time) {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	g.until = deadline
}

// Releasing records that the user is about to call the release.
func (g *Grant) Releasing() {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.r.Releasing == 0 {
		g.r.Releasing = Now()
		g.h.tell(line{Hold: g.r})
	}
}

// Released records that the release has returned.
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
	g.h.tell(line{Hold: g.r})
}

// Downgraded records that the user, who holds for writing, continues for
// reading only. The hold ends with the context of reading, if one is given.
func (g *Grant) Downgraded(reading ...context.Context) {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	g.r.Downgraded = Now()
	if len(reading) > 0 && g.r.Ended == 0 {
		g.stop()
		g.ctx = reading[0]
		g.follow()
	}
	g.h.tell(line{Hold: g.r})
}

// Write records a write to a register that checks tokens, and whether it
// accepted it. Values are unique.
func (h *History) Write(client, name string, token coordinator.Token, value string, begin, end int64, accepted bool) {
	h.access(Access{Client: client, Name: name, Token: int64(token), Value: value, Begin: begin, End: end, Accepted: accepted})
}

// Read records a read of a register. A holder that is going to write reads with
// its token, which the register checks and stores as for a write: otherwise an
// older holder could write in between. A read with token 0 is always allowed.
// Before the first write the value is empty.
func (h *History) Read(client, name string, token coordinator.Token, value string, begin, end int64, accepted bool) {
	h.access(Access{Client: client, Name: name, Read: true, Token: int64(token), Value: value, Begin: begin, End: end, Accepted: accepted})
}

func (h *History) access(a Access) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accesses = append(h.accesses, a)
	h.tell(line{Access: &a})
}

// Fault records the beginning of an injected fault. The returned function
// records its end, and which clients it affected, whose time until the next
// grant is measured; without names all clients.
func (h *History) Fault(kind string) (end func(clients ...string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &Injected{ID: fmt.Sprintf("%016x-%d", h.run, len(h.faults)), Kind: kind, Begin: Now()}
	h.faults = append(h.faults, f)
	h.faultByID[f.ID] = f
	h.tell(line{Fault: f})
	return func(clients ...string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f.End, f.Clients = Now(), clients
		h.tell(line{Fault: f})
	}
}

// Excuse excludes a client's holds of a name, or of all names if it is empty,
// from the checks between two times, because its process is stopped or killed.
func (h *History) Excuse(client, name, why string, from, to int64) {
	h.excuse(Excused{Client: client, Name: name, Why: why, From: from, To: to})
}

// Ousted records that between from and now an operator has removed a client's
// session, or its entries of a name. The client's earlier requests are excluded
// from the checks until to, among them a grant whose reply is in flight. By
// then the client must have noticed.
func (h *History) Ousted(client, name string, from, to int64) {
	h.excuse(Excused{Client: client, Name: name, Why: "removed by an operator", From: from, To: to, Before: Now()})
}

func (h *History) excuse(e Excused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.excused = append(h.excused, e)
	h.tell(line{Excused: &e})
}
