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

// Convert makes a node in place of the old one, in one transaction. What stays,
// the place in the queue and the token, is in the new node's name: see
// names.go. A view is one listing, which shows what is before or after a
// transaction.
//
// The transaction deletes the old node, and no node is ever made again under a
// name that was used. So of all attempts one at most is applied; none is, once
// the contender has left; and when the old node is not there there are no two
// ways about it: either an earlier attempt has made the new one, or it is gone.
// All that was before the answer is known to the server that gave it, so the
// look that tells which needs no sync and waits for no other attempt.
func (s *session) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	old, err := s.ownNode(queue, own.Place)
	if err = cmp.Or(err, nodes.CheckMode(mode), nodes.CheckValue(value)); err != nil {
		return driver.Place{}, err
	}
	switch {
	case own.Token <= 0 || old.tokenOr(int64(own.Token)) != own.Token:
		return driver.Place{}, zkconn.Invalid("place %q in the queue %q: token %d is not its own",
			own.Place.Key, queue, own.Token)
	case old.Mode == mode:
		return driver.Place{}, zkconn.Invalid("place %q in the queue %q: it has mode %q already",
			own.Place.Key, queue, mode)
	}
	to := old.converted(mode, own.Token)
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

// replace sends the request that converts. It is a flight of the contender's,
// so that Forget waits until it has landed.
func (s *session) replace(
	ctx context.Context, queue driver.Queue, old, to node, value []byte,
) error {
	f, err := s.Begin(ctx, old.ID)
	if err != nil {
		return err
	}
	defer f.End()
	ops := []any{
		nodes.DeleteRequest(s.ChildPath(queue, old.Key)),
		s.CreateRequest(s.ChildPath(queue, to.Key), value, zk.FlagEphemeral),
	}
	if e, _ := s.OwnEntry(s.ChildPath(queue, old.Key)); e.Successor != "" {
		// To those who follow, the old place has left.
		ops = append(ops, nodes.DeleteRequest(s.ChildPath(queue, e.Successor)))
	}
	o, err := s.Multi(ctx, f, ops)
	if err != nil && o.Failed == 3 { // an operator has deleted the successor node
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

// Guard returns an operation for a Multi of the caller's own on the ensemble
// that gave the grant: it fails, and with it all of the Multi, unless the grant
// of the sequencer holds, by the ensemble's word, at the very moment at which
// the Multi is applied.
//
//	holds, err := zookeeper.Guard("/apps/orders", seq) // the chroot of Baton's client, empty if it has none
//	_, err = conn.Multi(holds, &zk.SetDataRequest{Path: "/orders/42", Data: paid, Version: -1})
//	... errors.Is(err, zk.ErrNoNode), and the first response has it: the grant was over, and nothing was written
//
// So what is in the Multi cannot be written late, however long the holder was
// stopped, and needs no token beside it. It costs no request. The
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
	root, err := rootOf(chroot)
	if err != nil {
		return nil, err
	}
	queue := driver.NewQueue(seq.Kind, seq.Name)
	n, ok := parseNode(seq.Key)
	if !ok || nodes.CheckKey(queue, n.Place) != nil || n.tokenOr(int64(seq.Token)) != seq.Token {
		return nil, zkconn.Invalid("sequencer %q is not of a ZooKeeper", seq)
	}
	// Any version: the leader of an election writes its entry's data. The name
	// is never that of another entry.
	return &zk.CheckVersionRequest{Path: root + "/" + string(queue) + "/" + n.Key, Version: -1}, nil
}
