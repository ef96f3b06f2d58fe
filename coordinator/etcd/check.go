package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Check reads one key, by quorum: another session may have seen the entry go, wherever that was applied (K1). The create revision
// tells whether the key is still in the life that the handle names, and the token is that revision or the rank in the name.
func (s *session) Check(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if err := s.alive(); err != nil {
		return err
	}
	e, ok := s.named(line, key, token)
	if !ok {
		return driver.ErrGone
	}
	r, err := s.get(ctx, clientv3.OpGet(e.key, clientv3.WithKeysOnly()))
	if err != nil {
		return s.failed(ctx, err)
	}
	if !e.in(r.kvs) {
		return driver.ErrGone
	}
	return nil
}

// named is the entry of the line that a key and a token name, if they can be those of one.
func (s *session) named(line driver.Line, key string, token driver.Token) (e entry, ok bool) {
	e, ok = s.keys.entry(line, driver.Place{Key: key})
	return e, ok && !isMark(e.key) && driver.Token(s.keys.rank(line, e)) == token
}
