package etcd

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// Remove deletes one key, if it is still in the life that the handle names: Check, and the deletion in place of the read. It leaves no
// mark, and takes the tail away that names the entry, as Leave does.
//
// A request that is late deletes nothing else, since no key has a create revision twice.
func (s *session) Remove(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if err := s.alive(); err != nil {
		return err
	}
	e, ok := s.named(line, key, token)
	if !ok {
		return driver.ErrGone
	}
	resp, err := s.c.Txn(s.lead(ctx)).If(e.stands()).Then(s.deletes(line, e, false, nil)...).Commit()
	if err != nil {
		return s.failed(ctx, err)
	}
	if !resp.Succeeded {
		return driver.ErrGone
	}
	s.finished(line, resp.Header.Revision)
	return nil
}
