package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
)

// witness observes entries with the service's own client, without Baton. It
// asks every member and uses the first report, since a member may be killed or
// lag.
type witness interface {
	// watch calls gone once, when a session's entry in a mutex's queue was
	// removed. When it returns, the watches are set. ctx ends them.
	watch(ctx context.Context, name, session string, gone func()) error
	close()
}

// newWitness makes the witness of a site. The caller closes it.
func (s site) newWitness() (witness, error) {
	if s.service == "etcd" {
		w := &etcdWitness{}
		for _, addr := range s.endpoints {
			c, err := etcdserver.NewClient(addr)
			if err != nil {
				w.close()
				return nil, err
			}
			w.members = append(w.members, c)
		}
		return w, nil
	}
	w := &zkWitness{}
	for _, addr := range s.endpoints {
		c, _, err := zk.Connect([]string{addr}, 20*time.Second, zk.WithLogger(quiet{}))
		if err != nil {
			w.close()
			return nil, err
		}
		w.members = append(w.members, c)
	}
	return w, nil
}

type etcdWitness struct{ members []*clientv3.Client }

func (w *etcdWitness) watch(ctx context.Context, name, session string, gone func()) error {
	once := sync.OnceFunc(gone)
	for _, c := range w.members {
		queue := "baton-test/./mutex/" + name + "/"
		events := c.Watch(ctx, queue, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
		if created, ok := <-events; !ok || created.Err() != nil {
			return fmt.Errorf("watch not created: %w", errors.Join(created.Err(), ctx.Err()))
		}
		go func() {
			for resp := range events {
				for _, e := range resp.Events {
					if strings.Contains(string(e.Kv.Key), session) {
						once()
					}
				}
			}
		}()
	}
	return nil
}

func (w *etcdWitness) close() {
	for _, c := range w.members {
		_ = c.Close()
	}
}

type zkWitness struct{ members []*zk.Conn }

func (w *zkWitness) watch(ctx context.Context, name, session string, gone func()) error {
	once := sync.OnceFunc(gone)
	for _, c := range w.members {
		events, err := watchEntry(ctx, c, "/baton-test/~/mutex/"+name, session)
		if err != nil {
			return err
		}
		go func() {
			select {
			case e := <-events:
				if e.Type == zk.EventNodeDeleted { // not the end of the witness's own session
					once()
				}
			case <-ctx.Done():
			}
		}()
	}
	return nil
}

// watchEntry sets a watch at one member. It retries for a while: the client
// fails a request that waits for a connection each time its server refuses it,
// as a server does that was just started or is behind the client's reads.
func watchEntry(ctx context.Context, c *zk.Conn, queue, session string) (<-chan zk.Event, error) {
	for end := time.Now().Add(30 * time.Second); ; {
		path, err := entryOf(c, queue, session)
		if err == nil {
			there, _, events, existsErr := c.ExistsW(path)
			if existsErr == nil && there {
				return events, nil
			}
			err = fmt.Errorf("no watch on %s, which exists: %v: %w", path, there, existsErr)
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, err
		}
		await.For(ctx, 100*time.Millisecond)
	}
}

// entryOf returns the path of a session's entry, at a member that is up to
// date.
func entryOf(c *zk.Conn, queue, session string) (string, error) {
	if _, err := c.Sync(queue); err != nil {
		return "", err
	}
	children, _, err := c.Children(queue)
	if err != nil {
		return "", err
	}
	for _, child := range children {
		if strings.Contains(child, "_"+session+"_") {
			return queue + "/" + child, nil
		}
	}
	return "", fmt.Errorf("session %s has no entry in %s", session, queue)
}

func (w *zkWitness) close() {
	for _, c := range w.members {
		c.Close()
	}
}
