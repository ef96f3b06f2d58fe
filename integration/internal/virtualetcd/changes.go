package virtualetcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// Change is a change of one key.
type Change struct {
	Key      string
	Revision int64
	// Before and After are the key before and after the change, nil if there
	// was or is none.
	Before, After *mvccpb.KeyValue
}

// OnChange calls see with all changes of keys, in the order of their revisions
// and at the virtual instant at which the server applies them: before any reply
// or event about them can reach a client. The changes of one message are of one
// revision or several.
func (e *Etcd) OnChange(see func([]Change)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.see = see
}

// watch follows a server from its start. The server before was followed until
// its end, so nothing has changed in between.
func (e *Etcd) watch(life context.Context, server *etcdserver.EtcdServer) error {
	e.mu.Lock()
	e.seen = server.KV().Rev()
	e.mu.Unlock()
	stream := server.KV().NewWatchStream()
	_, err := stream.Watch(life, 0, []byte{0}, []byte{}, server.KV().Rev()+1)
	if err != nil {
		stream.Close()
		return err
	}
	go func() {
		defer stream.Close()
		for {
			select {
			case resp := <-stream.Chan():
				e.changed(resp.Events)
			case <-life.Done():
				return
			}
		}
	}()
	return nil
}

func (e *Etcd) changed(events []*mvccpb.Event) {
	var all []Change
	e.mu.Lock()
	for _, ev := range events {
		c := Change{Key: string(ev.Kv.Key), Revision: ev.Kv.ModRevision}
		c.Before = e.keys[c.Key]
		if delete(e.keys, c.Key); ev.Type != mvccpb.DELETE {
			c.After = ev.Kv
			e.keys[c.Key] = ev.Kv
		}
		all = append(all, c)
	}
	see := e.see
	e.mu.Unlock()
	if len(all) == 0 {
		return
	}
	if see != nil {
		see(all)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = all[len(all)-1].Revision
	close(e.more)
	e.more = make(chan struct{})
}

// Settle waits until OnChange has seen all that the server has applied.
func (e *Etcd) Settle() {
	for server := e.Server(); server != nil; server = e.Server() {
		e.mu.Lock()
		seen, more := e.seen, e.more
		e.mu.Unlock()
		if seen >= server.KV().Rev() {
			return
		}
		select {
		case <-more:
		case <-server.StopNotify():
			return
		}
	}
}

// handles notes that the server handles a request, or has handled it.
func (e *Etcd) handles(a *attempt, does bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if does {
		e.handled[a] = true
	} else {
		delete(e.handled, a)
	}
}

// Asked reports whether a client has asked for a change: a request that the
// server handles now names its key, or revokes the lease of the key.
func (e *Etcd) Asked(c Change) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range e.handled {
		if names(a.req, c) {
			return true
		}
	}
	return false
}

func names(req any, c Change) bool {
	switch r := req.(type) {
	case *pb.PutRequest:
		return string(r.Key) == c.Key
	case *pb.DeleteRangeRequest:
		return string(r.Key) == c.Key || string(r.Key) <= c.Key && c.Key < string(r.RangeEnd)
	case *pb.LeaseRevokeRequest:
		return c.After == nil && c.Before != nil && c.Before.Lease == r.ID
	case *pb.TxnRequest:
		for _, op := range append(r.Success, r.Failure...) {
			switch {
			case op.GetRequestTxn() != nil && names(op.GetRequestTxn(), c),
				op.GetRequestPut() != nil && names(op.GetRequestPut(), c),
				op.GetRequestDeleteRange() != nil && names(op.GetRequestDeleteRange(), c):
				return true
			}
		}
	}
	return false
}
