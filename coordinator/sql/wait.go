package sql

import (
	"context"
	stdsql "database/sql"
	stddriver "database/sql/driver"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/baton-go/baton/coordinator/driver"
)

const (
	// safety is the time between reads when notifications arrive. Otherwise it
	// is between shortest and longest.
	safety            = 2 * time.Second
	shortest, longest = time.Millisecond, 250 * time.Millisecond
	readTimeout       = 3 * time.Second
	silence           = 5 * time.Second // after which a client sends a notification, which all hear
)

// waiter is a call that waits until one of the entries with some tokens has
// left. 0 stands for the record, which has left its version.
type waiter struct {
	path    string
	tokens  map[int64]string // with their contenders
	version driver.Version
	end     chan error // has room for one
	behind  int        // so many entries leave before it ends
	since   time.Time  // this has been so
}

func (w *waiter) finish(err error) {
	select {
	case w.end <- err:
	default: // it has ended
	}
}

// Watch waits until a read or a notification shows that an entry has left.
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	w := &waiter{path: s.d.path(queue), tokens: map[int64]string{}}
	for _, p := range places {
		w.tokens[tokenOf(p)] = p.ID
	}
	if _, ok := w.tokens[0]; ok {
		return nil // no entry has such a place
	}
	return s.wait(ctx, w)
}

func (s *session) wait(ctx context.Context, w *waiter) error {
	w.end = make(chan error, 1)
	s.mu.Lock()
	s.waiters[w] = struct{}{}
	s.rouse()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiters, w)
		s.mu.Unlock()
	}()
	select {
	case err := <-w.end:
		return err
	case <-s.ctx.Done():
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run reads for all waiters of the session, in one goroutine from the first
// wait until the session is over.
func (s *session) run() {
	l := listener{s: s}
	defer l.drop()
	for s.ctx.Err() == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		s.mu.Lock()
		s.rouse = cancel
		waiters := slices.Collect(maps.Keys(s.waiters))
		s.mu.Unlock()
		timer := time.AfterFunc(s.look(waiters, l.pg != nil && l.probe == ""), cancel)
		l.receive(ctx)
		timer.Stop()
		cancel()
	}
}

// look ends the waits that are over, and returns the time until the next read.
// Without notifications that is in proportion to the number of entries that
// leave before a wait ends, and to the time since that number changed.
func (s *session) look(waiters []*waiter, notified bool) (pause time.Duration) {
	if len(waiters) == 0 {
		return math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	defer cancel()
	var paths []string
	for _, w := range waiters {
		paths = append(paths, w.path)
	}
	began := time.Now()
	slices.Sort(paths)
	queues, next, err := s.read(ctx, allEntries, slices.Compact(paths)...)
	if ctx.Err() != nil {
		err = driver.Wrap(driver.ErrUnavailable, err) // the end of this read, not of the waits
	}
	pause = min(safety, next)
	for _, w := range waiters {
		q := queues[w.path]
		over, behind := err != nil, 0
		for token, contender := range w.tokens {
			at, found := q.find(token, contender)
			if token == 0 {
				found = q.record.Version == w.version
			}
			over, behind = over || !found, max(behind, 1+at)
		}
		if behind != w.behind {
			w.behind, w.since = behind, time.Now()
		}
		if over {
			w.finish(err)
		} else if !notified {
			step := min(max(time.Since(w.since)/8, shortest), longest)
			pause = min(pause, step*time.Duration(behind), longest)
		}
	}
	// Reads of long queues take a quarter of the time at most.
	return max(pause, min(3*time.Since(began), safety))
}

// listener receives PostgreSQL's notifications.
type listener struct {
	s            *session
	conn         *stdsql.Conn
	pg           *pgx.Conn // of conn; nil if there is none
	asked, heard time.Time // the latest notifications sent and received
	probe        string    // that sent, until it arrives
}

// receive waits until ctx ends, and ends waits that notifications concern.
func (l *listener) receive(ctx context.Context) {
	if l.s.d.listens && time.Since(l.heard) > silence && time.Since(l.asked) > silence {
		l.ask()
	}
	for l.pg != nil {
		n, err := l.pg.WaitForNotification(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.drop() // and read at once: some may have been missed
			}
			return
		}
		l.heard = time.Now()
		if n.Payload == l.probe {
			l.probe = ""
		}
		number, path, _ := strings.Cut(n.Payload, " ")
		token, _ := strconv.ParseInt(number, 10, 64)
		l.s.mu.Lock()
		for w := range l.s.waiters {
			if _, ok := w.tokens[token]; ok && w.path == path {
				w.finish(nil)
			}
		}
		l.s.mu.Unlock()
	}
	<-ctx.Done()
}

// ask sends a notification of its own, over another connection: only what is
// sent over the same one, or at random, may arrive behind PgBouncer in
// transaction mode. It listens first, again if the previous did not arrive.
func (l *listener) ask() {
	ctx, cancel := context.WithTimeout(l.s.ctx, readTimeout)
	defer cancel()
	if l.probe != "" {
		l.drop()
	}
	l.asked = time.Now()
	l.probe = l.s.id + strconv.FormatInt(l.asked.UnixNano(), 10)
	if l.conn == nil {
		if l.conn, _ = l.s.d.db.Conn(ctx); l.conn == nil {
			return
		}
		_ = l.conn.Raw(func(raw any) (err error) {
			if c, ok := raw.(*stdlib.Conn); ok { // not one of another package
				l.pg = c.Conn()
				_, err = l.pg.Exec(ctx, "DO $$ BEGIN EXECUTE 'LISTEN ' || baton_channel(); END $$")
			}
			return err
		})
	}
	_, _ = l.s.d.db.ExecContext(ctx, "SELECT pg_notify(baton_channel(), $1)", l.probe)
}

// drop closes the connection, which the pool must not reuse: it listens.
func (l *listener) drop() {
	if l.conn != nil {
		_ = l.conn.Raw(func(any) error { return stddriver.ErrBadConn })
		_ = l.conn.Close()
		l.conn, l.pg = nil, nil
	}
}
