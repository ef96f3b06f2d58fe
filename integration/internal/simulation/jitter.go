package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// jittery is a driver whose calls each return after another small delay. Many
// goroutines are woken at the same time when a connection breaks or a session
// ends; with the delays the seed determines their order, and not the scheduler.
type jittery struct {
	driver.Driver
	w    *world
	slot *slot
}

// sharing is jittery of a driver whose queues are shared with other clients.
type sharing struct {
	*jittery
	of driver.Sharer
}

func newJittery(w *world, s *slot, of driver.Driver) driver.Driver {
	d := &jittery{Driver: of, w: w, slot: s}
	if sharer, shares := of.(driver.Sharer); shares {
		return &sharing{d, sharer}
	}
	return d
}

func (d *sharing) SharedName(kind, name string) (string, error) { return d.of.SharedName(kind, name) }

func (d *sharing) SharedValue(kind, identity string, payload []byte) ([]byte, error) {
	return d.of.SharedValue(kind, identity, payload)
}

// actorKey is the context key for the label of the calling goroutine.
type actorKey struct{}

// labelOf is the label of the goroutine that calls, or "".
func labelOf(ctx context.Context) string {
	if ctx == nil {
		return ""
	}
	label, _ := ctx.Value(actorKey{}).(string)
	return label
}

// who names the sequence to which a request belongs. Clean-up, which has no
// actor's context, belongs to a contender, a renewal to its session. An opening
// has no sequence: of the goroutines that wait for a session, any may open it.
func (w *world) who(ctx context.Context, op memory.Op, session, id string) string {
	if op == memory.OpOpen {
		return ""
	}
	if label := labelOf(ctx); label != "" {
		return label
	}
	if label := w.label(id); label != "" {
		return label
	}
	return session
}

// label names a contender by its actor; it may be empty.
func (w *world) label(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.labels[id]
}

// linger delays the return of a call. Sometimes the delay is long, as if the
// process had been stopped, but then it ends soon after the context.
func (d *jittery) linger(ctx context.Context, op memory.Op, session, id string) {
	r := d.w.draw(fmt.Sprintf("linger %d %s %s", d.slot.index, op, d.w.who(ctx, op, session, id)))
	usual := time.Duration(1 + r.Int64N(int64(200*time.Microsecond)))
	late := time.Duration(1 + r.Int64N(int64(d.w.ttl)))
	if r.Float64() < d.w.storm/2 && !d.w.isMended() && d.w.swarm.on("return late") {
		timer := time.NewTimer(late)
		defer timer.Stop()
		d.w.mu.Lock()
		d.w.count("return late")
		d.w.mu.Unlock()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-d.w.mended:
		}
	}
	time.Sleep(usual)
}

func (d *jittery) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	began := d.w.now()
	s, err := d.Driver.Open(ctx, ttl)
	d.linger(ctx, memory.OpOpen, "", "")
	d.w.opened(ctx, d.slot, began, err)
	if err != nil {
		return nil, err
	}
	return &jitterySession{coordinatortest.WithCapabilities(s), d}, nil
}

// as labels a request for contenders that callers share.
func (d *jittery) as(ctx context.Context, queue driver.Queue) context.Context {
	for _, n := range d.w.names {
		if labelOf(ctx) == "" && n.queue == queue && d.slot.several(n) {
			return context.WithValue(ctx, actorKey{}, d.slot.keeper(queue))
		}
	}
	return ctx
}

type jitterySession struct {
	coordinatortest.Full
	d *jittery
}

// Err says why the driver's session is over, if it does.
func (s *jitterySession) Err() error {
	if says, ok := s.Session.(interface{ Err() error }); ok {
		return says.Err()
	}
	return nil
}

// Capabilities returns the session's, some of them replaced, if the world has
// any.
func (s *jitterySession) Capabilities() driver.Capabilities {
	if s.d.w.core {
		return driver.Capabilities{}
	}
	return s.Offer(s)
}

func (s *jitterySession) linger(ctx context.Context, op memory.Op, id string) {
	s.d.linger(ctx, op, s.ID(), id)
}

func (s *jitterySession) Renew(ctx context.Context) error {
	defer s.linger(ctx, memory.OpRenew, "")
	return s.Full.Renew(ctx)
}

func (s *jitterySession) Join(ctx context.Context, queue driver.Queue,
	c driver.Contender) (driver.Joined, error) {
	ctx = s.d.as(ctx, queue)
	w := s.d.w
	label := w.who(ctx, memory.OpJoin, s.ID(), "")
	w.mu.Lock()
	w.clients[c.ID] = s.d.slot
	// Some drivers' IDs are used again, by any actor of the session.
	if who, _, _ := strings.Cut(w.labels[c.ID], "#"); who != label {
		w.draws["contenders of "+label]++
		w.labels[c.ID] = fmt.Sprintf("%s#%d", label, w.draws["contenders of "+label])
	}
	w.reads[label] = readTimes{joined: true}
	w.mu.Unlock()
	defer s.linger(ctx, memory.OpJoin, c.ID)
	joined, err := s.Full.Join(ctx, queue, c)
	w.note(func() { w.sendings["join "+c.ID]++ })
	return joined, err
}

func (s *jitterySession) Ahead(ctx context.Context, queue driver.Queue,
	own driver.Place) (driver.View, error) {
	ctx = s.d.as(ctx, queue)
	defer s.linger(ctx, memory.OpAhead, own.ID)
	view, err := s.Full.Ahead(ctx, queue, own)
	if label := labelOf(ctx); label != "" && err == nil {
		s.d.w.viewed(label, queue, own, view)
	}
	return view, err
}

func (s *jitterySession) Watch(ctx context.Context, queue driver.Queue,
	places ...driver.Place) (err error) {
	ctx = s.d.as(ctx, queue)
	if len(places) > 0 {
		s.d.w.waits(ctx, memory.OpWatch)
		defer func() { s.d.w.watched(ctx, places[0].ID, err) }()
		defer s.linger(ctx, memory.OpWatch+memory.Op(s.d.w.label(places[0].ID)), places[0].ID)
	}
	return s.Full.Watch(ctx, queue, places...)
}

// Follow counts the results of followers.
func (s *jitterySession) Follow(ctx context.Context, queue driver.Queue, own,
	ahead driver.Place) (bool, error) {
	ctx = s.d.as(ctx, queue)
	// A separate sequence: the entry's holder may watch it too.
	defer s.linger(ctx, "follow", ahead.ID)
	s.d.w.waits(ctx, memory.OpWatch)
	late := s.d.w.hasLeft(queue, ahead)
	passed, err := s.Full.Follow(ctx, queue, own, ahead)
	s.d.w.followed(late, passed, err)
	return passed, err
}

func (s *jitterySession) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	s.d.w.sends("a handoff", queue, own.ID, "")
	s.d.w.note(func() { s.d.w.sendsAgain("leave", queue, own.ID) })
	defer s.linger(ctx, memory.OpLeave, own.ID)
	return s.Full.Pass(ctx, queue, own)
}

func (s *jitterySession) Convert(ctx context.Context, queue driver.Queue, own driver.Joined,
	mode string, value []byte) (driver.Place, error) {
	s.d.w.sends("a conversion", queue, own.Place.ID, mode)
	defer s.linger(ctx, memory.OpConvert, own.Place.ID)
	place, err := s.Full.Convert(ctx, queue, own, mode, value)
	s.d.w.note(func() {
		s.d.w.reachIf(errors.Is(err, driver.ErrSessionLost) || errors.Is(err, driver.ErrGone), convertedDuringExpiry)
	})
	return place, err
}

func (s *jitterySession) Write(ctx context.Context, queue driver.Queue, own driver.Place,
	value []byte) error {
	defer s.linger(ctx, memory.OpWrite, own.ID)
	return s.Full.Write(ctx, queue, own, value)
}

func (s *jitterySession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	s.d.w.sends("a removal", queue, own.ID, "")
	s.d.w.note(func() { s.d.w.sendsAgain("leave", queue, own.ID) })
	defer s.linger(ctx, memory.OpLeave, own.ID)
	return s.Full.Leave(ctx, queue, own)
}

func (s *jitterySession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	s.d.w.sends("a removal", queue, id, "")
	s.d.w.note(func() { s.d.w.sendsAgain("forget", queue, id) })
	defer s.linger(ctx, memory.OpForget, id)
	return s.Full.Forget(ctx, queue, id)
}

func (s *jitterySession) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry,
	error) {
	defer s.linger(ctx, memory.OpList, "")
	return s.Full.List(ctx, queue, limit)
}

func (s *jitterySession) Head(ctx context.Context, queue driver.Queue,
	known driver.Version) (driver.Head, error) {
	defer s.linger(ctx, memory.OpHead, "")
	return s.Full.Head(ctx, queue, known)
}

func (s *jitterySession) Record(ctx context.Context, queue driver.Queue,
	known driver.Version) (driver.Record, error) {
	ctx = s.d.as(ctx, queue)
	defer s.linger(ctx, memory.OpRecord, "")
	if known != driver.Any {
		s.d.w.waits(ctx, memory.OpRecord)
	}
	return s.Full.Record(ctx, queue, known)
}

func (s *jitterySession) SetRecord(ctx context.Context, queue driver.Queue, value []byte,
	known driver.Version) (driver.Version, error) {
	ctx = s.d.as(ctx, queue)
	defer s.linger(ctx, memory.OpSetRecord, "")
	return s.Full.SetRecord(ctx, queue, value, known)
}

func (s *jitterySession) Close(ctx context.Context) error {
	s.d.w.closes(s.ID())
	defer s.linger(ctx, memory.OpClose, "")
	return s.Full.Close(ctx)
}
