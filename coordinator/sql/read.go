package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/baton-go/baton/coordinator/driver"
)

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

// reading says what to read of a queue: values of entries and the record, and
// how many entries up to a token.
type reading struct {
	values bool
	upTo   int64
	limit  int
}

var allEntries = reading{upTo: math.MaxInt64, limit: math.MaxInt32}

// above returns a condition that lets PostgreSQL skip entries that have left:
// see the schema. MySQL needs none.
func (d Dialect) above(column, queue string) string {
	if d != Postgres {
		return ""
	}
	return " AND " + column + " >= baton_low(" + queue + ")"
}

// atMost returns the beginning of a value: who may write to the tables can
// store any size, and one that is cut is not Baton's.
func atMost(column string) string {
	return "SUBSTR(" + column + ", 1, " + strconv.Itoa(largest+1) + ")"
}

// replica returns the part of a query that adds a row, with some columns, if
// the server is a replica. It lags, and so would show an entry or a session as
// gone that it does not have yet. A connection may lead to one: it stays when
// its server becomes a replica, and proxies may send reads there.
func (d Dialect) replica(columns string) string {
	is := "pg_is_in_recovery()"
	if d == MySQL {
		is = "CAST(@@read_only AS CHAR) NOT IN ('0', 'OFF')" // of which MariaDB 12 has more
		columns += " FROM DUAL"
	}
	return " UNION ALL SELECT " + columns + " WHERE " + is
}

// errReplica has the code with which the server refuses writes.
func (d Dialect) errReplica() error {
	const text = "the server is read-only: it is a replica, or does not accept writes now"
	if d == MySQL {
		return &mysql.MySQLError{Number: 1290, Message: text}
	}
	return &pgconn.PgError{Severity: "ERROR", Code: "25006", Message: text}
}

// query returns the query and its arguments. Its rows are the session, the
// queue, and entries.
func (what reading) query(d Dialect, session, path string) (query string, args []any) {
	record, value := "NULL", "NULL"
	if what.values {
		record, value = atMost("q.record"), atMost("e.value")
	}
	low := d.above("e.token", "?")
	query = "SELECT 0 AS kind, 0 AS token, id, remains, 0, '', '', NULL FROM baton_live WHERE id = ? " +
		"UNION ALL SELECT 1, 0, '', q.version, COALESCE((SELECT MAX(token) FROM baton_entries e " +
		"WHERE queue = q.name" + low + "), 0), '', '', " + record + " FROM baton_queues q WHERE q.name = ?" +
		d.replica("3, 0, '', 0, 0, '', '', NULL") +
		" UNION ALL (SELECT 2, e.token, e.session, s.remains, 0, e.contender, e.mode, " +
		value + " FROM baton_entries e JOIN baton_live s ON s.id = e.session " +
		"WHERE e.queue = ?" + low + " AND e.token <= ? ORDER BY e.token LIMIT ?) ORDER BY token"
	args = []any{session, path, path, path, path, what.upTo, what.limit}
	if low == "" {
		args = []any{session, path, path, what.upTo, what.limit}
	}
	return query, args
}

// read reads a queue in one statement, if the session is alive. It has other
// sessions ended that have expired, and reads again. Those that cannot be ended
// now count.
func (s *session) read(
	ctx context.Context, what reading, path string,
) (q queueState, err error) {
	query, args := what.query(s.d.dialect, s.id, path)
	counts := map[string]bool{}
	for s.ctx.Err() == nil {
		var expired []string
		alive := false
		q = queueState{}
		err := s.d.ask(ctx, s.d.db, query, args, func(r *stdsql.Rows) error {
			var e driver.Entry
			var kind, number, last int64
			err := r.Scan(&kind, &e.Token, &e.Session, &number, &last, &e.ID, &e.Mode, &e.Value)
			switch {
			case kind == 0:
				alive = number > 0
			case kind == 3:
				err = cmp.Or(err, s.d.dialect.errReplica())
			case kind == 1:
				q.record = driver.Record{Value: e.Value, Version: driver.Version(number)}
				q.last = last
			case number <= 0 && !counts[e.Session]:
				expired = append(expired, e.Session)
			default:
				e.Key = e.Token.String()
				q.list = append(q.list, e)
			}
			return err
		})
		if err == nil && !alive {
			s.end()
			err = errLost
		}
		if err != nil || len(expired) == 0 {
			return q, err
		}
		awaitEnds(ctx, s.expire(expired))
		for _, id := range expired {
			counts[id] = true
		}
	}
	return queueState{}, errLost
}

// watched is an entry that a waiter waits for, or the record if the token is 0,
// and what a read shows of it.
type watched struct {
	*waiter
	token   int64
	found   bool          // it is there, or the record has the waiter's version
	remains time.Duration // of its session
	first   int64         // token of its queue, unless the session is notified
}

// find reads entries and records in statements of a bounded size. It returns
// the sessions that have expired.
func (s *session) find(
	ctx context.Context, list []*watched, notified bool,
) (expired []string, err error) {
	for some := range slices.Chunk(list, s.d.dialect.most()) {
		err := within(ctx, func(ctx context.Context) error {
			ids, err := s.findSome(ctx, some, notified)
			expired = append(expired, ids...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return expired, nil
}

// within calls f, which sends requests, with a context that ends soon.
func within(ctx context.Context, f func(context.Context) error) error {
	bound, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := f(bound)
	if err != nil && bound.Err() != nil {
		err = driver.Wrap(driver.ErrUnavailable, err) // the end of these requests, not of the waits
	}
	return err
}

func (s *session) findSome(
	ctx context.Context, list []*watched, notified bool,
) (expired []string, err error) {
	query, args := s.d.dialect.find(list, s.id, notified)
	alive := false
	err = s.d.ask(ctx, s.d.db, query, args, func(r *stdsql.Rows) error {
		var n, number, first int64
		var contender, owner string
		err := r.Scan(&n, &contender, &owner, &number, &first)
		switch {
		case err != nil:
			return err
		case n == 0:
			alive = number > 0
			return nil
		case n == -1:
			return s.d.dialect.errReplica()
		case n < 0 || n > int64(len(list)):
			return errors.New("a row that was not asked for")
		}
		e := list[n-1]
		if e.token == 0 {
			e.found = driver.Version(number) == e.version
			return nil
		}
		e.found, e.first = contender == e.tokens[e.token], first
		if e.remains = time.Duration(number) * time.Microsecond; number <= 0 {
			expired = append(expired, owner)
		}
		return nil
	})
	if err == nil && !alive {
		s.end()
		err = errLost
	}
	return expired, err
}

// most is how many entries a statement reads.
func (d Dialect) most() int {
	if d == Postgres {
		return 1000
	}
	return 200
}

// find returns the query for some entries and records, and its arguments. Its
// rows are the session, and what it found, with the position in the list. On
// PostgreSQL the text is the same for each number of entries: it is prepared.
func (d Dialect) find(list []*watched, session string, notified bool) (query string, args []any) {
	var source string
	first := "0"
	if !notified {
		first = "COALESCE((SELECT MIN(b.token) FROM baton_entries b WHERE b.queue = w.queue" +
			d.above("b.token", "w.queue") + "), 0)"
	}
	if d == Postgres {
		var paths, tokens []string
		for _, e := range list {
			paths = append(paths, e.path)
			tokens = append(tokens, strconv.FormatInt(e.token, 10))
		}
		source = `SELECT n, u.queue COLLATE "C" AS queue, u.token FROM unnest(string_to_array(?, ' '), ` +
			"CAST(string_to_array(?, ' ') AS bigint[])) WITH ORDINALITY AS u (queue, token, n)"
		args = []any{strings.Join(paths, " "), strings.Join(tokens, " ")} // names have no spaces
	} else {
		const row = "SELECT CAST(? AS SIGNED) AS n, CONVERT(? USING ascii) COLLATE ascii_bin AS queue, " +
			"CAST(? AS SIGNED) AS token" // types without which MySQL would not use the index
		source = row + strings.Repeat(" UNION ALL "+row, len(list)-1)
		for i, e := range list {
			args = append(args, i+1, e.path, e.token)
		}
	}
	return "WITH w AS (" + source + ") SELECT 0, '', id, remains, 0 FROM baton_live WHERE id = ?" +
		d.replica("-1, '', '', 0, 0") +
		" UNION ALL SELECT w.n, e.contender, e.session, s.remains, " + first + " FROM w " +
		"JOIN baton_entries e ON e.queue = w.queue AND e.token = w.token " +
		"JOIN baton_live s ON s.id = e.session " +
		"UNION ALL SELECT w.n, '', '', q.version, 0 FROM w JOIN baton_queues q ON q.name = w.queue " +
		"WHERE w.token = 0", append(args, session)
}
