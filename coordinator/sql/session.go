package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// clockError is by how much the database's clock may be set forward, or that of
// a promoted replica be ahead. Servers that use NTP differ by less.
const clockError = 250 * time.Millisecond

// session is a row of baton_sessions.
type session struct {
	d   *sqlDriver
	id  string
	ttl time.Duration

	ctx context.Context // ends when the session is over
	end context.CancelFunc

	mu      sync.Mutex
	waiters map[*waiter]struct{}
	rouse   context.CancelFunc // makes run read at once; the first call begins it

	// unsure has the contenders with joins whose outcome is not known. When one
	// leaves the epoch rises, and the database refuses earlier joins.
	unsure map[string]bool
	epoch  int64
}

// Open starts a session. The database also ends one or two that have expired,
// since it may be that nobody meets their entries.
func (d *sqlDriver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if granted := min(max(ttl.Truncate(time.Microsecond), time.Second), 24*time.Hour); granted != ttl {
		return nil, invalid("TTL %v would become %v: want 1s to 24h, in microseconds", ttl, granted)
	}
	if err := checkSchema(ctx, d.db); err != nil {
		return nil, err
	}
	s := &session{d: d, id: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), ttl: ttl}
	s.unsure, s.waiters = map[string]bool{}, map[*waiter]struct{}{}
	if _, _, err := d.call(ctx, "open", s.id, ttl.Microseconds()); err != nil {
		return nil, err
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.rouse = func() { s.rouse = func() {}; d.tasks.Go(s.run) }
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

func (s *session) Renew(ctx context.Context) error {
	_, _, err := s.call(ctx, "renew", s.id)
	return err
}

// Close deletes the session's row, and its entries with it. Requests under way
// are refused without the row.
func (s *session) Close(ctx context.Context) error {
	s.end()
	_, _, err := s.d.call(ctx, "end", s.id, false)
	return err
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
	s.mu.Unlock()
	value := append([]byte{}, c.Value...) // nil would be NULL
	outcome, token, err := s.call(ctx, "join",
		s.d.path(queue), s.id, epoch, c.ID, c.Mode, value, c.Alone, int64(c.Record))
	if (err == nil || errors.Is(err, driver.ErrRefused)) && !unsure {
		s.settle(c.ID)
	}
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

func (s *session) settle(contender string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsure, contender)
}

// leave removes a contender's entry, with a token or any if it is 0. It raises
// the epoch, in the same transaction, if joins may be under way.
func (s *session) leave(ctx context.Context, queue driver.Queue, id string, token int64) error {
	epoch := int64(0)
	s.mu.Lock()
	if s.unsure[id] {
		s.epoch++
		epoch = s.epoch
	}
	s.mu.Unlock()
	outcome, _, err := s.call(ctx, "leave", s.d.path(queue), s.id, epoch, id, token)
	if err != nil {
		return err
	}
	s.settle(id)
	if outcome == "gone" && token != 0 {
		return errGone
	}
	return nil
}

func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if token := tokenOf(own); token != 0 {
		return s.leave(ctx, queue, own.ID, token)
	}
	return errGone
}

func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return s.leave(ctx, queue, id, 0)
}

// queueState is a queue as a read shows it.
type queueState struct {
	record driver.Record
	list   []driver.Entry
	last   int64 // token
}

// find returns the index of a contender's entry. A promoted replica may have
// given its token to another contender.
func (q queueState) find(token int64, contender string) (at int, found bool) {
	at, found = slices.BinarySearchFunc(q.list, driver.Token(token),
		func(e driver.Entry, t driver.Token) int { return cmp.Compare(e.Token, t) })
	return at, found && q.list[at].ID == contender
}

// reading says what to read of queues: values of entries and records, and how
// many entries up to a token.
type reading struct {
	values bool
	upTo   int64
	limit  int
}

var allEntries = reading{upTo: math.MaxInt64, limit: math.MaxInt32}

// query returns the query: its rows are the session, the queues, and entries.
func (what reading) query(queues int) string {
	record, value, in := "NULL", "NULL", " IN (?"+strings.Repeat(", ?", queues-1)+") "
	if what.values {
		record, value = "q.record", "e.value"
	}
	return "SELECT '', 0 AS token, id, remains, 0, '', '', NULL FROM baton_live WHERE id = ? " +
		"UNION ALL SELECT q.name, 0, '', q.version, COALESCE((SELECT MAX(token) " +
		"FROM baton_entries WHERE queue = q.name), 0), '', '', " + record +
		" FROM baton_queues q WHERE q.name" + in +
		"UNION ALL (SELECT e.queue, e.token, e.session, s.remains, 0, e.contender, e.mode, " +
		value + " FROM baton_entries e JOIN baton_live s ON s.id = e.session " +
		"WHERE e.queue" + in + "AND e.token <= ? ORDER BY e.token LIMIT ?) ORDER BY token"
}

// read reads queues in one statement, if the session is alive. It ends others
// that have expired, and reads again. The next may expire after some time.
func (s *session) read(
	ctx context.Context, what reading, paths ...string,
) (queues map[string]queueState, next time.Duration, err error) {
	args := []any{s.id}
	for _, path := range slices.Concat(paths, paths) {
		args = append(args, path)
	}
	args = append(args, what.upTo, what.limit)
	for s.ctx.Err() == nil {
		var expired []string
		alive := false
		queues, next = map[string]queueState{}, math.MaxInt64
		err := s.d.ask(ctx, s.d.db, what.query(len(paths)), args, func(r *stdsql.Rows) error {
			var path string
			var e driver.Entry
			var number, last int64
			err := r.Scan(&path, &e.Token, &e.Session, &number, &last, &e.ID, &e.Mode, &e.Value)
			q := queues[path]
			switch {
			case path == "":
				alive = number > 0
			case e.Token == 0:
				q.record = driver.Record{Value: e.Value, Version: driver.Version(number)}
				q.last = last
			case number <= 0:
				expired = append(expired, e.Session)
			default:
				e.Key, next = e.Token.String(), min(next, time.Duration(number)*time.Microsecond)
				q.list = append(q.list, e)
			}
			queues[path] = q
			return err
		})
		if err == nil && !alive {
			s.end()
			err = errLost
		}
		if err != nil || len(expired) == 0 {
			return queues, next, err
		}
		for _, id := range slices.Compact(expired) {
			if _, _, err := s.d.call(ctx, "end", id, true); err != nil {
				return nil, 0, err
			}
		}
	}
	return nil, 0, errLost
}

func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (view driver.View, err error) {
	path, what, all := s.d.path(queue), allEntries, own == driver.Place{}
	if !all {
		what.upTo = tokenOf(own)
	}
	queues, _, err := s.read(ctx, what, path)
	q := queues[path]
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
	path, what := s.d.path(queue), reading{true, math.MaxInt64, cmp.Or(n, math.MaxInt32)}
	queues, _, err := s.read(ctx, what, path)
	return queues[path].list, err
}

func (s *session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	for path := s.d.path(queue); ; {
		queues, _, err := s.read(ctx, reading{values: true}, path)
		if r := queues[path].record; err != nil || r.Version != known {
			return r, err
		}
		if err := s.wait(ctx, &waiter{path: path, tokens: map[int64]string{0: ""}, version: known}); err != nil {
			return driver.Record{}, err
		}
	}
}

// SetRecord writes the record. Its versions count from 1.
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if len(value) == 0 || len(value) > 64<<10 {
		return 0, invalid("a record of %d bytes; want 1 to %d", len(value), 64<<10)
	}
	outcome, version, err := s.call(ctx, "set_record", s.d.path(queue), s.id, value, int64(known))
	if err == nil && outcome == "stale" {
		err = driver.Wrap(driver.ErrStale, nil)
	}
	return driver.Version(version), err
}
