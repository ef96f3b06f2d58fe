package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// clockError is by how much the database's clock may be set forward, or that of
// a promoted replica be ahead. Servers that use NTP differ by less.
const clockError = 250 * time.Millisecond

// largest is the size of the largest record or value of an entry.
const largest = 64 << 10

// session is a row of baton_sessions.
type session struct {
	d   *sqlDriver
	id  string
	ttl time.Duration

	ctx context.Context // ends when the session is over
	end context.CancelFunc

	mu      sync.Mutex
	waiters map[*waiter]struct{}
	rouse   context.CancelFunc // makes run check at once; the first call begins it
	yield   context.CancelFunc // also ends the requests of run

	// unsure has the contenders with joins whose outcome is not known. When one
	// leaves the epoch rises, and the database refuses earlier joins.
	unsure map[string]bool
	epoch  int64

	entries  map[string]int64 // contender -> its token, 0 before it is known
	renewals atomic.Int64

	dead   map[string]chan struct{} // sessions to end: see expired.go
	ending chan struct{}            // has one element while a session is being ended
	freed  atomic.Bool              // one was: the waits for its entries check again

	listening, gaveWay atomic.Bool // a connection is kept for notifications, or no more
}

// Open starts a session. The database also ends one or two that have expired,
// since it may be that nobody meets their entries.
func (d *sqlDriver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if granted := min(max(ttl.Truncate(time.Microsecond), time.Second), 24*time.Hour); granted != ttl {
		return nil, invalid("TTL %v would become %v: want 1s to 24h, in microseconds", ttl, granted)
	}
	if err := checkSchema(ctx, d.db); err != nil {
		return nil, d.last.explain(err)
	}
	s := &session{d: d, id: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), ttl: ttl}
	s.unsure, s.waiters, s.entries = map[string]bool{}, map[*waiter]struct{}{}, map[string]int64{}
	s.dead, s.ending = map[string]chan struct{}{}, make(chan struct{}, 1)
	if _, _, err := d.call(ctx, "open", s.id, ttl.Microseconds()); err != nil {
		return nil, err
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.rouse = func() {
		s.rouse = func() {}
		if !d.spawn(s.run) {
			s.end()
		}
	}
	return s, nil
}

func (s *session) Capabilities() driver.Capabilities { return driver.Capabilities{} }
func (s *session) ID() string                        { return s.id }
func (s *session) TTL() time.Duration                { return s.ttl }
func (s *session) Slack() time.Duration              { return clockError }
func (s *session) Done() <-chan struct{}             { return s.ctx.Done() }

func (s *session) call(ctx context.Context, name string, args ...any) (string, int64, error) {
	if s.ctx.Err() != nil {
		return "", 0, errLost
	}
	outcome, number, err := s.d.call(ctx, name, args...)
	if err == nil && outcome == "lost" {
		s.end()
		err = errLost
	}
	return outcome, number, err
}

// Renew gives up the connection for notifications if it is not answered soon:
// perhaps the clients of the user's pool have taken all connections for that.
func (s *session) Renew(ctx context.Context) error {
	if s.d.renewals == s.d.db && s.listening.Load() {
		defer time.AfterFunc(s.ttl/(2*driver.RenewalsPerTTL), s.giveWay).Stop()
	}
	_, _, err := s.call(ctx, "renew", s.id)
	if err == nil && s.renewals.Add(1)%driver.RenewalsPerTTL == 0 {
		s.d.spawn(func() { _ = s.review() }) // the next one finds the rest
	}
	return err
}

func (s *session) giveWay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaveWay.Store(true)
	s.yield() // it may wait for a connection as well
}

func (s *session) knows(contender string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.entries[contender]
	return known
}

// Close deletes the session's row, and its entries with it. Requests under way
// are refused without the row.
func (s *session) Close(ctx context.Context) error {
	s.end()
	return s.d.end(ctx, s.id, false)
}

// tokenOf returns the token in a place's key, or 0 if no entry has such a key.
func tokenOf(p driver.Place) int64 {
	token, _ := driver.ParseToken(p.Key) // 0 is no token
	return int64(token)
}

// Join inserts an entry. The key of its place is its token.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (j driver.Joined, err error) {
	s.mu.Lock()
	epoch, unsure := s.epoch, s.unsure[c.ID] // an earlier join may still arrive
	s.unsure[c.ID] = true
	s.entries[c.ID] = 0
	s.mu.Unlock()
	value := append([]byte{}, c.Value...) // nil would be NULL
	outcome, token, err := s.call(ctx, "join",
		s.d.path(queue), s.id, epoch, c.ID, c.Mode, value, c.Alone, int64(c.Record))
	if (err == nil || errors.Is(err, driver.ErrRefused)) && !unsure {
		s.settle(c.ID)
	}
	s.joined(c.ID, outcome, token, err)
	switch {
	case err != nil:
	case outcome == "late":
		err = errLate
	case outcome == "stale":
		err = driver.Wrap(driver.ErrStale, nil)
	case outcome == "taken": // perhaps by a session that has expired
		list, failed := s.List(ctx, queue, 1)
		if failed == nil && len(list) == 0 {
			return s.Join(ctx, queue, c)
		}
		err = cmp.Or(failed, driver.Wrap(driver.ErrTaken, nil))
	default:
		j.Token, j.First = driver.Token(token), outcome == "first"
		j.Place = driver.Place{Key: j.Token.String(), ID: c.ID, Mode: c.Mode, Session: s.id}
	}
	return j, err
}

// joined notes the outcome of a join. Unless it says that there is no entry,
// there may be one.
func (s *session) joined(contender, outcome string, token int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, driver.ErrRefused) || outcome == "stale" || outcome == "taken":
		delete(s.entries, contender)
	case err == nil && outcome != "late":
		s.entries[contender] = token
	}
}

// left notes that a contender's entry with a token, or any, is gone.
func (s *session) left(contender string, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token == 0 || token == s.entries[contender] {
		delete(s.entries, contender)
	}
}

func (s *session) settle(contender string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsure, contender)
}

// leave removes a contender's entry, with a token or any if it is 0. It raises
// the epoch, in the same transaction, if joins may be under way.
func (s *session) leave(ctx context.Context, path, id string, token int64) error {
	epoch := int64(0)
	s.mu.Lock()
	if s.unsure[id] {
		s.epoch++
		epoch = s.epoch
	}
	s.mu.Unlock()
	outcome, _, err := s.call(ctx, "leave", path, s.id, epoch, id, token)
	if err != nil {
		return err
	}
	s.settle(id)
	s.left(id, token)
	if outcome == "gone" && token != 0 {
		return errGone
	}
	return nil
}

func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if token := tokenOf(own); token != 0 {
		return s.leave(ctx, s.d.path(queue), own.ID, token)
	}
	return errGone
}

func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return s.leave(ctx, s.d.path(queue), id, 0)
}

func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (view driver.View, err error) {
	path, what, all := s.d.path(queue), allEntries, own == driver.Place{}
	if !all {
		what.upTo = tokenOf(own)
	}
	q, err := s.read(ctx, what, path)
	at, found := q.find(what.upTo, own.ID)
	if err == nil && !found && !all {
		err = errGone
	}
	view.Last, view.Record = all || what.upTo == q.last, q.record.Version
	for _, e := range q.list[:at] {
		view.Ahead = append(view.Ahead, e.Place)
	}
	return view, err
}

func (s *session) List(ctx context.Context, queue driver.Queue, n int) ([]driver.Entry, error) {
	q, err := s.read(ctx, reading{true, math.MaxInt64, cmp.Or(n, math.MaxInt32)}, s.d.path(queue))
	return q.list, err
}

func (s *session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	for path := s.d.path(queue); ; {
		q, err := s.read(ctx, reading{values: true}, path)
		if r := q.record; err != nil || r.Version != known {
			return r, err
		}
		if err := s.wait(ctx, &waiter{path: path, tokens: map[int64]string{0: ""}, version: known}); err != nil {
			return driver.Record{}, err
		}
	}
}

// SetRecord writes the record. Its versions count from 1.
//
// With Any it sends nothing: the server that answers Record has all finished
// writes, and the statement would lock the queue's row, which is a write, and
// make it for a name that was never used.
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if len(value) == 0 || len(value) > largest {
		return 0, invalid("a record of %d bytes; want 1 to %d", len(value), largest)
	}
	if known == driver.Any {
		if s.ctx.Err() != nil {
			return 0, errLost
		}
		return 0, driver.ErrStale
	}
	outcome, version, err := s.call(ctx, "set_record", s.d.path(queue), s.id, value, int64(known))
	if err == nil && outcome == "stale" {
		err = driver.Wrap(driver.ErrStale, nil)
	}
	return driver.Version(version), err
}
