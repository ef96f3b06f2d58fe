package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Convert makes a node in place of the old one, in one transaction. What stays,
// the place in the queue and the token, is in the new node's name: see names.go.
// A view is one listing, which shows what is before or after a transaction.
//
// The transaction deletes the old node, and no node is ever made again under a
// name that was used. So of all attempts one at most is applied; none is, once
// the contender has left; and when the old node is not there there are no two
// ways about it: either an earlier attempt has made the new one, or it is gone.
// All that was before the answer is known to the server that gave it, so the
// look that tells which needs no sync and waits for no other attempt.
func (s *session) Convert(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if err := cmp.Or(s.checkQueue(queue), checkKey(queue, own.Place), checkMode(mode), checkValue(value)); err != nil {
		return driver.Place{}, err
	}
	old, _ := parseNode(own.Place.Key)
	if old.Session != s.hex {
		return driver.Place{}, driver.Wrap(driver.ErrGone, errNotMine)
	}
	switch {
	case own.Token <= 0 || old.tokenOr(int64(own.Token)) != own.Token:
		return driver.Place{}, invalid("place %q in the queue %q: token %d is not the one that it was given", own.Place.Key, queue, own.Token)
	case old.Mode == mode:
		return driver.Place{}, invalid("place %q in the queue %q: it has mode %q already", own.Place.Key, queue, mode)
	}
	to := old.converted(mode, own.Token)
	err := s.replace(ctx, queue, old, to, value)
	if errors.Is(err, zk.ErrNoNode) {
		err = s.stands(ctx, queue, to)
	}
	if err != nil {
		return driver.Place{}, err
	}
	s.written.drop(s.below(queue, old.Key))
	s.ownEntries.converted(queue, old, to)
	return to.Place, nil
}

// replace sends the request that converts. It is a flight of the contender's,
// so that Forget waits until it has landed.
func (s *session) replace(ctx context.Context, queue driver.Queue, old, to node, value []byte) error {
	f, _ := s.joins.begin(queue, old.ID)
	defer f.end()
	parent := s.path(queue) + "/"
	ops := []any{deleting(parent + old.Key), s.creating(parent+to.Key, value, zk.FlagEphemeral)}
	if successor := s.ownEntries.of(queue, old).successor; successor != "" { // to those who follow, the old place has left
		ops = append(ops, deleting(parent+successor))
	}
	for {
		o, err := s.multi(ctx, f, ops)
		if err == nil || o.failed != 3 {
			return err
		}
		ops = ops[:2] // somebody else has deleted the successor node
	}
}

// stands returns nil if a node is in the queue, else ErrGone.
func (s *session) stands(ctx context.Context, queue driver.Queue, n node) error {
	_, err := s.stat(ctx, s.below(queue, n.Key))
	return err
}

// stat reads what the service keeps of a node beside its data. A node that is
// not there is zk.ErrNoNode.
func (s *session) stat(ctx context.Context, node string) (*zk.Stat, error) {
	return call(ctx, s, func() (*zk.Stat, error) {
		there, stat, err := s.conn.Exists(node)
		if err == nil && !there {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}

// written are the versions of the data of those nodes of this session that were
// written to. That of the others is 0.
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

// note notes a version that the service has told. Answers may be noted in
// another order than that in which they were given.
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
// An earlier Write whose caller has gone may still be queued in the Conn, or be
// on its way. It named that version or one before, so once this one is applied
// it is refused. If it comes first, this one is refused, reads the version, and
// tries again.
//
// Whoever waits for the node to go is not told: see Watch.
func (s *session) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	if err := cmp.Or(s.checkQueue(queue), checkKey(queue, own), checkValue(value)); err != nil {
		return err
	}
	if n, _ := parseNode(own.Key); n.Session != s.hex {
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	return s.write(ctx, s.below(queue, own.Key), bytes.Clone(value)) // the request may outlive the call
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

// Guard returns an operation for a Multi of the caller's own on the ensemble
// that gave the grant: it fails, and with it all of the Multi, unless the grant
// of the sequencer holds, by the ensemble's word, at the very moment at which
// the Multi is applied.
//
//	holds, err := zookeeper.Guard("/apps/orders", seq) // the chroot of Baton's client, empty if it has none
//	_, err = conn.Multi(holds, &zk.SetDataRequest{Path: "/orders/42", Data: paid, Version: -1})
//	... errors.Is(err, zk.ErrNoNode), and the first response has it: the grant was over, and nothing was written
//
// So what is in the Multi can not be written late, whoever was stopped for
// however long, and needs no token beside it. It costs no request. The
// connection needs permission to read the nodes that Baton makes. When it
// fails, coordinator.Client.Check says why.
//
// On another ensemble it always fails, since no entry there has this name. A
// chroot that breaks a rule, a sequencer of another kind of service, or one
// that makes no sense, is driver.ErrInvalid.
func Guard(chroot string, seq fence.Sequencer) (*zk.CheckVersionRequest, error) {
	if err := seq.Validate(); err != nil {
		return nil, err
	}
	var b base
	if err := b.setChroot(chroot); err != nil {
		return nil, err
	}
	queue := driver.NewQueue(seq.Kind, seq.Name)
	n, ok := parseNode(seq.Key)
	if !ok || checkKey(queue, n.Place) != nil || n.tokenOr(int64(seq.Token)) != seq.Token {
		return nil, invalid("sequencer %q is not of a ZooKeeper", seq)
	}
	// Any version: the leader of an election writes its entry's data. The name
	// is never that of another entry.
	return &zk.CheckVersionRequest{Path: b.root() + "/" + string(queue) + "/" + n.Key, Version: -1}, nil
}
