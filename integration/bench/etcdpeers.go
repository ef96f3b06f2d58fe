package bench

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdLink is a client with a lease, for the floors.
type etcdLink struct {
	*clientv3.Client
	lease clientv3.LeaseID
}

// etcdLinks are the connections of a floor.
type etcdLinks []etcdLink

func openEtcdLinks(ctx context.Context, a access, n int) (links etcdLinks, err error) {
	for range n {
		c, err := newEtcdClient(a)
		if err != nil {
			links.close()
			return nil, err
		}
		links = append(links, etcdLink{Client: c})
		l, err := c.Grant(ctx, 100*int64(defaultTTL.Seconds())) // longer than any case, so no renewals
		if err != nil {
			links.close()
			return nil, err
		}
		links[len(links)-1].lease = l.ID
	}
	return links, nil
}

func (ls etcdLinks) of(i int) etcdLink { return ls[i%len(ls)] }

func (ls etcdLinks) close() {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	for _, l := range ls {
		if l.lease != 0 {
			_, _ = l.Revoke(ctx, l.lease)
		}
		_ = l.Close()
	}
}

// etcdFloor writes a key and deletes it: the minimum for any lock.
type etcdFloor struct{ etcdLinks }

func (f etcdFloor) contender(i int, name string) (contender, error) {
	l, key := f.of(i), fmt.Sprintf("/floor/%s/%d", name, i) // never shared
	return &taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
		if _, err := l.Put(ctx, key, "", clientv3.WithLease(l.lease)); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			_, err := l.Delete(ctx, key)
			return err
		}, nil
	}}, nil
}

// etcdMutexes are etcd's own. Their key is derived from the session, so
// contenders for one name need a session each.
type etcdMutexes struct {
	clients  []*clientv3.Client
	sessions []*concurrency.Session
}

func openEtcdMutexes(ctx context.Context, a access, l load) (party, error) {
	p := &etcdMutexes{}
	sessions := l.contenders
	if l.form == names {
		sessions = l.connections() // no contention
	}
	for range l.connections() {
		c, err := newEtcdClient(a)
		if err != nil {
			p.close()
			return nil, err
		}
		p.clients = append(p.clients, c)
	}
	for i := range sessions {
		s, err := concurrency.NewSession(p.clients[i%len(p.clients)], concurrency.WithTTL(int(defaultTTL.Seconds())), concurrency.WithContext(ctx))
		if err != nil {
			p.close()
			return nil, err
		}
		p.sessions = append(p.sessions, s)
	}
	return p, nil
}

func (p *etcdMutexes) contender(i int, name string) (contender, error) {
	m := concurrency.NewMutex(p.sessions[i%len(p.sessions)], "/peer/"+name)
	return &taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
		return m.Unlock, m.Lock(ctx)
	}}, nil
}

// close revokes the leases with their clients: closing 512 sessions one by one
// is slow.
func (p *etcdMutexes) close() {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	for _, s := range p.sessions {
		s.Orphan()
		_, _ = s.Client().Revoke(ctx, s.Lease())
	}
	for _, c := range p.clients {
		_ = c.Close()
	}
}
