package zookeeper

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// Convert deletes the old node and creates a new one, in one transaction. The
// new node's name keeps the place in the queue and the token: see names.go. A
// listing shows the queue before or after a transaction.
//
// No name is used twice, so at most one attempt is applied, and none after the
// contender has left. If the old node is missing, either an earlier attempt has
// created the new one, or the entry is gone. The server that replied knows
// which, so the read that decides needs no sync and waits for no other attempt.
func (s *session) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (_ driver.Place, err error) {
	old, err := s.ownNode(queue, own.Place)
	if err = cmp.Or(err, nodes.CheckMode(mode), nodes.CheckValue(value)); err != nil {
		return driver.Place{}, err
	}
	switch {
	case own.Token <= 0 || old.tokenOr(int64(own.Token)) != own.Token:
		return driver.Place{}, zkconn.Invalid("place %q in the queue %q: its token is not %d",
			own.Place.Key, queue, own.Token)
	case old.Mode == mode:
		return driver.Place{}, zkconn.Invalid("place %q in the queue %q: it has mode %q already",
			own.Place.Key, queue, mode)
	}
	to := old.converted(mode, own.Token)
	near := s.neighbors.leaves(queue, own.Place)
	defer func() { s.neighbors.end(near, err == nil || errors.Is(err, driver.ErrGone), false) }()
	err = s.replace(ctx, queue, old, to, value)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = s.Stat(ctx, s.ChildPath(queue, to.Key))
	}
	if err != nil {
		return driver.Place{}, err
	}
	s.DeleteOwnEntry(s.ChildPath(queue, old.Key))
	return to.Place, nil
}

// replace sends the request that converts. It is a flight of the contender, so
// Forget waits for it.
func (s *session) replace(
	ctx context.Context, queue driver.Queue, old, to node, value []byte,
) error {
	f, err := s.BeginFlight(ctx, old.ID)
	if err != nil {
		return err
	}
	defer f.End()
	ops := []any{
		nodes.DeleteRequest(s.ChildPath(queue, old.Key)),
		s.CreateRequest(s.ChildPath(queue, to.Key), value, zk.FlagEphemeral),
	}
	if e, _ := s.OwnEntry(s.ChildPath(queue, old.Key)); e.Successor != "" {
		// A conversion ends Follow.
		ops = append(ops, nodes.DeleteRequest(s.ChildPath(queue, e.Successor)))
	}
	o, err := s.Multi(ctx, f, ops)
	if err != nil && o.Failed == 3 { // an operator deleted the successor node
		_, err = s.Multi(ctx, f, ops[:2])
	}
	return err
}

// Write writes to the node, in one request.
func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	_, err := s.ownNode(queue, own)
	if err = cmp.Or(err, nodes.CheckValue(value)); err != nil {
		return err
	}
	return s.WriteTo(ctx, s.ChildPath(queue, own.Key), value)
}

// Guard returns an operation for a Multi of the caller on the ensemble that
// gave the grant. The operation, and with it the Multi, fails unless the
// sequencer's grant holds at the moment when the ensemble applies the Multi.
//
//	holds, err := zookeeper.Guard("/apps/orders", seq) // the chroot of Baton's client, or ""
//	_, err = conn.Multi(holds, &zk.SetDataRequest{Path: "/orders/42", Data: paid, Version: -1})
//	... errors.Is(err, zk.ErrNoNode), also in the first response: the grant was over, and nothing was written
//
// So the Multi writes nothing late, however long the holder was stopped, and
// needs no token. Guard costs no request. The connection needs permission to
// read the nodes that Baton creates. After a failure coordinator.Client.Check
// says why.
//
// On another ensemble it always fails, since no entry there has this name. An
// invalid chroot or sequencer, or a sequencer of another kind of service, is
// driver.ErrInvalid.
func Guard(chroot string, seq fence.Sequencer) (*zk.CheckVersionRequest, error) {
	if err := seq.Validate(); err != nil {
		return nil, err
	}
	root, err := rootOf(chroot)
	if err != nil {
		return nil, err
	}
	queue := driver.NewQueue(seq.Kind, seq.Name)
	n, ok := parseNode(seq.Key)
	if !ok || nodes.CheckKey(queue, n.Place) != nil || n.tokenOr(int64(seq.Token)) != seq.Token {
		return nil, zkconn.Invalid("sequencer %q is not ZooKeeper's", seq)
	}
	// Any version: the leader of an election writes its entry's data.
	return &zk.CheckVersionRequest{Path: root + "/" + queues + "/" + string(queue) + "/" + n.Key, Version: -1}, nil
}
