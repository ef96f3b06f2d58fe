package zookeeper

import (
	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Guard returns an operation for a Multi of the caller's own on the ensemble that gave the grant: it fails, and with it all of the
// Multi, unless the grant of the sequencer holds, by the ensemble's word, at the very moment at which the Multi is applied.
//
//	holds, err := zookeeper.Guard("/apps/orders", seq) // the chroot of Baton's client, empty if it has none
//	_, err = conn.Multi(holds, &zk.SetDataRequest{Path: "/orders/42", Data: paid, Version: -1})
//	... errors.Is(err, zk.ErrNoNode), and the first response has it: the grant was over, and nothing was written
//
// So what is in the Multi can not be written late, whoever was stopped for however long, and needs no token beside it. It costs no
// request. The connection needs permission to read the nodes that Baton makes. When it fails, coordinator.Client.Check
// says why.
//
// On another ensemble it always fails, since no entry there has this name. A chroot that breaks a rule, a sequencer of another kind
// of service, or one that makes no sense, is driver.ErrInvalid.
func Guard(chroot string, seq fence.Sequencer) (*zk.CheckVersionRequest, error) {
	if err := seq.Validate(); err != nil {
		return nil, err
	}
	var b base
	if err := b.setChroot(chroot); err != nil {
		return nil, err
	}
	line := driver.NewLine(seq.Kind, seq.Name)
	n, ok := parseNode(seq.Key)
	if !ok || checkKey(line, n.Place) != nil || n.tokenOr(int64(seq.Token)) != seq.Token {
		return nil, invalid("sequencer %q is not of a ZooKeeper", seq)
	}
	// Any version: the leader of an election writes its entry's data. The name is never that of another entry.
	return &zk.CheckVersionRequest{Path: b.root() + "/" + string(line) + "/" + n.Key, Version: -1}, nil
}
