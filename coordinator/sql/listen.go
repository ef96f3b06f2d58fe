package sql

import (
	"context"
	stdsql "database/sql"
	stddriver "database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// listener receives PostgreSQL's notifications.
type listener struct {
	s            *session
	conn         *stdsql.Conn
	pg           *pgx.Conn // of conn; nil if there is none
	asked, heard time.Time // the latest notifications sent and received
	probe        string    // that sent, until it arrives
	foreign      bool      // the pool's connections are not those of pgx
}

// receive waits until ctx ends or a notification concerns waiters, which are
// due then.
func (l *listener) receive(ctx context.Context, waiters []*waiter) {
	for concerned := false; l.pg != nil && !concerned; {
		n, err := l.pg.WaitForNotification(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.drop() // and check at once: some may have been missed
				for _, w := range waiters {
					w.due = time.Time{}
				}
			}
			return
		}
		l.heard = time.Now()
		if n.Payload == l.probe {
			l.probe = ""
		}
		number, path, _ := strings.Cut(n.Payload, " ")
		token, _ := strconv.ParseInt(number, 10, 64)
		for _, w := range waiters {
			if _, ok := w.tokens[token]; ok && w.path == path {
				w.due, concerned = time.Time{}, true
			}
		}
	}
	if l.pg == nil {
		<-ctx.Done()
	}
}

// ask sends a notification of its own after some silence, over another
// connection: only what is sent over the same one, or at random, may arrive
// behind PgBouncer in transaction mode. It listens first, again if the previous
// did not arrive.
func (l *listener) ask(ctx context.Context) {
	if !l.s.d.listens || time.Since(l.heard) <= silence || time.Since(l.asked) <= silence {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if l.probe != "" {
		l.drop()
	}
	l.asked = time.Now()
	if l.conn == nil && !l.listen(ctx) {
		return
	}
	l.probe = l.s.id + strconv.FormatInt(l.asked.UnixNano(), 10)
	_, _ = l.s.d.db.ExecContext(ctx, "SELECT baton_notify($1)", l.probe)
}

// listen takes a connection, if the pool then has more for requests, among them
// the renewals of others.
func (l *listener) listen(ctx context.Context) bool {
	need := 2
	if l.s.d.renewals == l.s.d.db {
		need = 3
	}
	pool := l.s.d.db.Stats()
	if l.foreign || pool.MaxOpenConnections > 0 && pool.MaxOpenConnections-pool.InUse < need {
		return false
	}
	var err error
	if l.conn, err = l.s.d.db.Conn(ctx); err != nil {
		l.conn = nil
		return false
	}
	err = l.conn.Raw(func(raw any) error {
		c, ok := raw.(*stdlib.Conn)
		if l.foreign = !ok; l.foreign {
			return errors.New("a connection of another package")
		}
		l.s.listening.Store(true)
		l.pg = c.Conn()
		_, err := l.pg.Exec(ctx, "DO $$ BEGIN EXECUTE 'LISTEN ' || baton_channel(); END $$")
		return err
	})
	if err != nil {
		l.drop()
	}
	return err == nil
}

// drop closes the connection, since it listens: a pool that reused it would
// keep all notifications in memory. That of pgxpool does not close it itself.
func (l *listener) drop() {
	if l.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		_ = l.pg.Close(ctx)
		cancel()
	}
	if l.conn != nil {
		if !l.foreign {
			_ = l.conn.Raw(func(any) error { return stddriver.ErrBadConn })
		}
		_ = l.conn.Close()
	}
	l.conn, l.pg, l.probe = nil, nil, ""
	l.s.listening.Store(false)
}
