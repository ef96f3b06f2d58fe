package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// written are the versions of the data of those nodes of this session that were written to. That of the others is 0.
type written struct {
	mu sync.Mutex
	m  map[string]int32
}

func newWritten() *written { return &written{m: make(map[string]int32)} }

func (w *written) version(node string) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[node]
}

// note notes a version that the service has told. Answers may be noted in another order than that in which they were given.
func (w *written) note(node string, version int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m[node] = max(version, w.m[node])
}

// drop forgets a node that is gone.
func (w *written) drop(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m, node)
}

// Write writes to the node, in one request that says which version it replaces.
//
// An earlier Write whose caller has gone may still be queued in the Conn, or be on its way. It named that version or one before, so
// once this one is applied it is refused. If it comes first, this one is refused, reads the version, and tries again.
//
// Whoever waits for the node to go is not told: see Watch.
func (s *session) Write(ctx context.Context, line driver.Line, own driver.Place, value []byte) error {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own), checkValue(value)); err != nil {
		return err
	}
	if n, _ := parseNode(own.Key); n.Session != s.hex {
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	return s.write(ctx, s.below(line, own.Key), bytes.Clone(value)) // the request may outlive the call
}

func (s *session) write(ctx context.Context, node string, value []byte) error {
	for range maxTries {
		version := s.written.version(node)
		_, err := call(ctx, s, func() (*zk.Stat, error) {
			stat, err := s.conn.Set(node, value, version)
			if err == nil {
				s.written.note(node, stat.Version)
			}
			return stat, err
		})
		if err == nil {
			return nil
		}
		if errors.Is(err, zk.ErrBadVersion) {
			var stat *zk.Stat
			if stat, err = s.stat(ctx, node); err == nil {
				s.written.note(node, stat.Version)
				continue
			}
		}
		if errors.Is(err, driver.ErrGone) {
			s.written.drop(node)
		}
		return err
	}
	return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: somebody else wrote to the entry again and again"))
}
