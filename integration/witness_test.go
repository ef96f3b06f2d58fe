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

	"github.com/baton-go/baton/integration/internal/etcdserver"
)

// witness sees what becomes of entries with the service's own client, without
// Baton. It asks every member, and takes the word of the one that tells first:
// a member may be killed, or lag.
type witness interface {
	// watch calls gone once, when the entry that a session has in a mutex's
	// line was removed. When it returns the watches stand. ctx ends them.
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
		line := "baton-test/./mutex/" + name + "/"
		events := c.Watch(ctx, line, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
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
		events, err := watchEntry(ctx, c, "/baton-test/mutex/"+name, session)
		if err != nil {
			return err
		}
		go func() {
			select {
			case e := <-events:
				if e.Type == zk.EventNodeDeleted { // and not the end of the witness's own session
					once()
				}
			case <-ctx.Done():
			}
		}()
	}
	return nil
}

// watchEntry sets a watch at one member. It tries for a while: the client fails
// what waits for a connection each time that its one server refuses it, as one
// does that was just started, or is behind what the client has seen.
func watchEntry(ctx context.Context, c *zk.Conn, line, session string) (<-chan zk.Event, error) {
	for end := time.Now().Add(30 * time.Second); ; {
		path, err := entryOf(c, line, session)
		if err == nil {
			there, _, events, existsErr := c.ExistsW(path)
			if existsErr == nil && there {
				return events, nil
			}
			err = fmt.Errorf("no watch on %s, which is there: %v: %w", path, there, existsErr)
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// entryOf is the path of the entry of a session, at a member that has caught
// up.
func entryOf(c *zk.Conn, line, session string) (string, error) {
	if _, err := c.Sync(line); err != nil {
		return "", err
	}
	children, _, err := c.Children(line)
	if err != nil {
		return "", err
	}
	for _, child := range children {
		if strings.Contains(child, "_"+session+"_") {
			return line + "/" + child, nil
		}
	}
	return "", fmt.Errorf("session %s has no entry in %s", session, line)
}

func (w *zkWitness) close() {
	for _, c := range w.members {
		c.Close()
	}
}
