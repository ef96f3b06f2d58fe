package etcd

import (
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Guard returns a comparison for a transaction of the caller's own on the cluster that gave the grant: it is true while the
// grant of the sequencer holds, by the cluster's word, at the very moment at which the transaction is applied.
//
//	holds, err := etcd.Guard(seq)
//	resp, err := client.Txn(ctx).If(holds).Then(clientv3.OpPut("/orders/42", "paid")).Commit()
//	... !resp.Succeeded: the grant was over, and nothing was written
//
// So what is in Then can not be written late, whoever was stopped for however long, and needs no token beside it. It costs no
// request. Add it to other comparisons as you like. When it fails, coordinator.Client.Check says why.
//
// The client must see the keys as Baton's does: one of package clientv3/namespace must be the one that was given to
// FromClient. On another cluster the comparison is never true, since no entry there has this name. A sequencer of another kind of service, or
// one that makes no sense, is driver.ErrInvalid.
func Guard(seq fence.Sequencer) (clientv3.Cmp, error) {
	if err := seq.Validate(); err != nil {
		return clientv3.Cmp{}, err
	}
	line := driver.NewLine(seq.Kind, seq.Name)
	base, ok := strings.CutSuffix(seq.Key[:strings.LastIndexByte(seq.Key, '/')+1], string(line)+"/")
	keys := layout{base: base}
	e, found := keys.entry(line, driver.Place{Key: seq.Key})
	if !ok || !found || base != "./" && !strings.HasSuffix(base, "/./") || isMark(e.key) || driver.Token(keys.rank(line, e)) != seq.Token {
		return clientv3.Cmp{}, invalid("sequencer %q is not of an etcd", seq)
	}
	return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev), nil
}
