package virtualetcd

import (
	"context"

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
	if see != nil && len(all) > 0 {
		see(all)
	}
}
