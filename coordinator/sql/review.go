package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// review removes the entries of the session that it has left: a server that was
// promoted or restarted without its latest commits has them again. No one else
// would remove them while the session lives.
//
// It removes no entry that counts. A contender is known from before its join is
// sent until it has left, and a late request to leave finds nothing.
func (s *session) review() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl)
	defer cancel()
	const most = 1000
	query := "SELECT queue, token, contender FROM baton_entries WHERE session = ? " +
		"AND (queue, token) > (?, ?) ORDER BY queue, token LIMIT " + fmt.Sprint(most)
	type entry struct {
		path, id string
		token    int64
	}
	var e entry
	for n := most; n == most; {
		n = 0
		var left []entry
		err := s.d.ask(ctx, s.d.db, query, []any{s.id, e.path, e.token}, func(r *stdsql.Rows) error {
			n++
			err := r.Scan(&e.path, &e.token, &e.id)
			if !s.knows(e.id) {
				left = append(left, e)
			}
			return err
		})
		for _, e := range left {
			if err == nil {
				err = s.leave(ctx, e.path, e.id, e.token)
			}
			if errors.Is(err, driver.ErrGone) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
