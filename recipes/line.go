package recipes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// Line is the waiting line of one name. It has no state of its own: all of that is
// at the service and in the holds. It is safe for concurrent use.
type Line struct {
	client   *coordinator.Client
	name     string
	line     driver.Line
	identity string
	payload  []byte
}

// NewLine returns the line of a recipe's kind and a name. It does no I/O. An empty identity
// means the client's.
func NewLine(c *coordinator.Client, kind, name, identity string, payload []byte) (*Line, error) {
	if c == nil {
		return nil, invalid("nil client")
	}
	line, err := coordinator.LineOf(kind, name)
	if err != nil {
		return nil, err
	}
	if identity == "" {
		identity = c.Identity()
	}
	if err := coordinator.CheckIdentity(identity); err != nil {
		return nil, err
	}
	if len(payload) > MaxPayload {
		return nil, invalid("payload has %d bytes; at most %d are allowed", len(payload), MaxPayload)
	}
	return &Line{client: c, name: name, line: line, identity: identity, payload: append([]byte(nil), payload...)}, nil
}

// Name is the name, as given.
func (l *Line) Name() string { return l.name }

// Request is what a recipe asks of a line.
type Request struct {
	Op   string // for errors: "lock", "read-lock", …
	Mode string // the contender's mark in the line
	Rule Rule
	// Try: do not wait. Alone, with Try: the rule admits nobody but the only one in line, so
	// that the service itself can refuse without an entry being made.
	Try, Alone bool
}

// Acquire joins the line and waits until the rule admits. A context that carries a live hold
// of this line (see [Hold.Context]) re-enters it instead: no request is made, the
// token is the same.
//
// On success the hold is the caller's to release. On failure nothing is held, and what stands
// in the line is removed in the background. A ctx that ends while waiting comes back as
// context.Cause(ctx).
func (l *Line) Acquire(ctx context.Context, r Request) (*Hold, error) {
	began := time.Now()
	switch {
	case r.Rule == nil || r.Mode == "":
		return nil, invalid("%s %q: a request wants a rule and a mode", r.Op, l.name)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if h, err := l.reenter(ctx, r.Mode); h != nil || err != nil {
		return h, l.describe(ctx, r.Op, err)
	}
	h, sess, err := l.acquire(ctx, r, began)
	if err != nil {
		l.client.Observe(coordinator.Event{Kind: coordinator.EventNotGranted, Session: sess, Op: r.Op,
			Line: l.line, Duration: time.Since(began), Err: err})
		return nil, l.describe(ctx, r.Op, err)
	}
	l.client.Observe(coordinator.Event{Kind: coordinator.EventGranted, Session: sess, Op: r.Op,
		Line: l.line, Token: h.Token(), Duration: time.Since(began)})
	return h, nil
}

// describe names the operation and the line in an error that does not do so yet.
func (l *Line) describe(ctx context.Context, op string, err error) error {
	if taken, ok := err.(*TakenError); ok && taken.Name == l.name && taken.Op == op { //nolint:errorlint // ours, not one in ctx's cause
		return taken
	}
	return coordinator.Describe(ctx, op, l.name, err)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("baton: %w: %s", coordinator.ErrInvalid, fmt.Sprintf(format, args...))
}

// acquire is Acquire without re-entry. It also returns the session's ID, for the observer.
func (l *Line) acquire(ctx context.Context, r Request, now time.Time) (*Hold, string, error) {
	value, err := info{Identity: l.identity, Since: now.UTC().Round(time.Millisecond), Payload: l.payload}.encode()
	if err != nil {
		return nil, "", err
	}
	s, j, err := l.join(ctx, r, value)
	switch {
	case s == nil:
		return nil, "", err
	case err != nil:
		return nil, s.ID(), l.taken(ctx, s, r, err)
	}
	if err = l.wait(ctx, s, r, j); err == nil {
		// The last look: a session that ended between the grant's request and now, while this
		// process was paused say, has no grant to give. Whoever comes next may have it.
		err = s.Err()
	}
	if err != nil {
		s.Abandon(l.line, j.Place)
		return nil, s.ID(), l.taken(ctx, s, r, err)
	}
	return newHold(ctx, l, s, j, r.Mode), s.ID(), nil
}

// join puts a contender into the line. When the service answers that the session was over before, this
// attempt has not stood in line yet, and is made once more on a new session.
func (l *Line) join(ctx context.Context, r Request, value []byte) (s *coordinator.Session, j driver.Joined, err error) {
	for range 2 {
		if s, err = l.client.Session(ctx); err != nil {
			return nil, j, err
		}
		if r.Try && !r.Alone {
			err = l.wouldAdmit(ctx, s, r)
		}
		if err == nil {
			j, err = s.Join(ctx, l.line, driver.Contender{ID: newID(), Mode: r.Mode, Value: value, Alone: r.Try && r.Alone})
		}
		if !errors.Is(err, coordinator.ErrSessionLost) || coordinator.MayHaveApplied(err) || ctx.Err() != nil {
			break
		}
	}
	return s, j, err
}

// wait returns nil once the rule admits the contender. After each leaving among those it
// watches it looks again, since the one ahead may have left without ever holding.
func (l *Line) wait(ctx context.Context, s *coordinator.Session, r Request, j driver.Joined) error {
	if j.First && r.Rule(nil).Admitted {
		return nil
	}
	for {
		ahead, err := s.Ahead(ctx, l.line, j.Place)
		if err != nil {
			return err
		}
		v := r.Rule(ahead)
		switch {
		case v.Admitted:
			return nil
		case r.Try:
			return coordinator.ErrTaken
		}
		if err := s.Await(ctx, l.line, v.Watch...); err != nil {
			return err
		}
	}
}

// wouldAdmit returns ErrTaken if the rule would not admit a contender that joined
// now, so that a Try that fails has not touched the line.
func (l *Line) wouldAdmit(ctx context.Context, s *coordinator.Session, r Request) error {
	entries, err := s.List(ctx, l.line, 0)
	if err != nil {
		return err
	}
	if !r.Rule(places(entries)).Admitted {
		return coordinator.ErrTaken
	}
	return nil
}

// askWho bounds the request that finds out who has the name, for an error message.
const askWho = time.Second

// taken makes the error of a Try that found the name taken, with the first in line if one more
// short request tells who that is. Other errors it leaves alone, and so it does when ctx has ended, for its cause
// may be the ErrTaken of somebody else.
func (l *Line) taken(ctx context.Context, s *coordinator.Session, r Request, err error) error {
	if !r.Try || ctx.Err() != nil || !errors.Is(err, coordinator.ErrTaken) {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, askWho)
	defer cancel()
	e := &TakenError{Op: r.Op, Name: l.name}
	if first, err := s.List(ask, l.line, 1); err == nil && len(first) > 0 {
		e.Holder = contender(first[0])
		e.Holder.Holding = true
	}
	return e
}

// List returns all contenders in order. rule tells, from those ahead of each, whether it is
// holding. It asks the service; a session is opened if there is none.
func (l *Line) List(ctx context.Context, rule func(mode string) Rule) ([]Contender, error) {
	s, err := l.client.Session(ctx)
	if err != nil {
		return nil, coordinator.Describe(ctx, "list", l.name, err)
	}
	entries, err := s.List(ctx, l.line, 0)
	if err != nil {
		return nil, coordinator.Describe(ctx, "list", l.name, err)
	}
	all := places(entries)
	list := make([]Contender, len(entries))
	for i, e := range entries {
		list[i] = contender(e)
		list[i].Holding = rule(e.Mode)(all[:i]).Admitted
	}
	return list, nil
}

func places(entries []driver.Entry) []driver.Place {
	p := make([]driver.Place, len(entries))
	for i, e := range entries {
		p[i] = e.Place
	}
	return p
}

// newID returns a contender's ID: 96 random bits. It is not made from the session, since two
// goroutines on one session are two contenders, nor from a counter, since a lost join must
// stay distinguishable over restarts.
func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the process instead
	return hex.EncodeToString(b[:])
}
