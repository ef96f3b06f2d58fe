package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

// The resources are databases and the coordination service itself.
func TestLateWriteIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	shelves := map[string]database{}
	for product, p := range products {
		shelves[product] = p.open(t)
	}
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		first, second := s.link(t, 10*time.Second), s.client(t, 10*time.Second)
		b := s.board(t)
		if err := b.write(await.Context(t), fence.Sequencer{}, name, "new"); err != nil {
			t.Fatal(err)
		}
		resources := []resource{guarded{b, second, name}}
		for product, db := range shelves {
			resources = append(resources, shelf{db, product, name})
		}
		var out strings.Builder
		err := story{
			first: newMutex(t, first.Client, name), second: newMutex(t, second, name),
			stop: func() {
				first.proxy.CutUp()
				first.proxy.CutDown()
			},
			resources: resources, out: &out,
		}.tell(await.Context(t))
		first.proxy.Heal()
		if err != nil || strings.Count(out.String(), "refuses it") != len(resources) {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}

// resource is the data that the lock protects.
type resource interface {
	Name() string
	// Write replaces the text. A late sequencer is refused with ErrStale.
	Write(ctx context.Context, s fence.Sequencer, text string) error
	Read(ctx context.Context) (string, error)
}

// story: a holder is cut off for longer than its TTL, another client acquires
// the lock and writes, and then the first holder's late write arrives.
type story struct {
	first, second *mutex.Mutex // of two clients
	stop          func()       // cuts the first client off
	resources     []resource
	out           io.Writer
}

// tell returns an error if a resource accepted the late write, or refused
// another write.
func (s story) tell(ctx context.Context) error {
	late, err := s.write(ctx, s.first, "written by the first")
	if err != nil {
		return err
	}
	s.stop()
	if _, err := s.write(ctx, s.second, "written by the second"); err != nil {
		return err
	}
	for _, r := range s.resources {
		err := r.Write(ctx, late, "written late")
		if !errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("%s accepts the late write: %w", r.Name(), errors.Join(errNotRefused, err))
		}
		fmt.Fprintf(s.out, "%s refuses it: %v\n", r.Name(), err)
	}
	for _, r := range s.resources {
		if text, err := r.Read(ctx); err != nil || text != "written by the second" {
			return fmt.Errorf("%s has %q in the end: %w", r.Name(), text, errors.Join(errNotRefused, err))
		}
	}
	return nil
}

var errNotRefused = errors.New("not refused")

// write locks, and writes to all resources. The lock stays held.
func (s story) write(ctx context.Context, m *mutex.Mutex, text string) (fence.Sequencer, error) {
	lock, err := m.Lock(ctx)
	if err != nil {
		return fence.Sequencer{}, err
	}
	seq, err := lock.Sequencer(ctx)
	if err != nil {
		return fence.Sequencer{}, err
	}
	for _, r := range s.resources {
		if err := r.Write(ctx, seq, text); err != nil {
			return fence.Sequencer{}, fmt.Errorf("%s: %w", r.Name(), err)
		}
	}
	return seq, nil
}

// shelf is a database as a resource of the story.
type shelf struct {
	database
	product, resource string
}

func (s shelf) Name() string { return s.product }

// texts are the texts of the story; their indexes are stored.
var texts = []string{"", "written by the first", "written by the second", "written late"}

func (s shelf) Write(ctx context.Context, seq fence.Sequencer, text string) error {
	number := 0
	for i, known := range texts {
		if text == known {
			number = i
		}
	}
	return s.transact(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		if err := s.guard.Check(ctx, tx, s.resource, seq); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.insert, s.resource, number)
		return err
	})
}

func (s shelf) Read(ctx context.Context) (string, error) {
	var number driver.Token
	table := strings.Fields(s.insert)[2]
	err := s.QueryRowContext(ctx, fmt.Sprintf("SELECT token FROM %s WHERE resource = '%s' ORDER BY id DESC LIMIT 1", table, s.resource)).Scan(&number)
	if err != nil {
		return "", err
	}
	return texts[number], nil
}

// guarded is the service itself as a resource.
type guarded struct {
	board
	client *coordinator.Client
	key    string
}

func (g guarded) Name() string { return "the coordinator itself" }

// Write asks the service for the reason of a refusal, as a program would.
func (g guarded) Write(ctx context.Context, seq fence.Sequencer, text string) error {
	err := g.write(ctx, seq, g.key, text)
	if errors.Is(err, errGuarded) {
		return g.client.Check(ctx, seq)
	}
	return err
}

func (g guarded) Read(ctx context.Context) (string, error) { return g.read(ctx, g.key) }

// An operator who has restored an older backup must delete it there.
func TestIdentityIsWhereTheDocsSay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c := s.client(t, 10*time.Second)
		session, err := c.Session(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		id, err := session.Service(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		var stored string
		if s.service == "etcd" {
			resp, err := s.etcdClient(t).Get(await.Context(t), "baton-test/./baton/service+record")
			if err != nil || len(resp.Kvs) != 1 {
				t.Fatalf("%v, %v", resp, err)
			}
			stored = string(resp.Kvs[0].Value)
		} else {
			conn := s.zkConn(t, 10*time.Second)
			if _, err := conn.Sync("/baton-test"); err != nil {
				t.Fatal(err)
			}
			data, _, err := conn.Get("/baton-test/~/baton/service+record")
			if err != nil {
				t.Fatal(err)
			}
			stored = string(data)
		}
		if stored != id || len(id) != 32 {
			t.Errorf("stored %q, documented %q", stored, id)
		}
	})
}

// docs/fencing.md describes restored backups, lost data, and the cure.
func TestOlderBackupKeepsTheIdentityAndLowersTokens(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcd(t, etcdserver.Options{})
	s, node, backup := site{"etcd", cluster.Endpoints()}, cluster.Nodes()[0], filepath.Join(t.TempDir(), "backup")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	grant := func(times int) (seq fence.Sequencer) {
		t.Helper()
		c := s.client(t, 10*time.Second)
		m := newMutex(t, c, "ledger")
		for range times {
			l := lock(t, m)
			var err error
			seq, err = l.Sequencer(await.Context(t))
			ok(err)
			unlock(t, l)
		}
		ok(c.Close(await.Context(t)))
		return seq
	}
	gate := fence.NewGate(fence.Scope{})
	before := grant(1)
	ok(gate.Check(t.Context(), before))
	ok(node.Backup(backup))
	ok(node.Restart(await.Context(t)))
	latest := grant(50)
	ok(gate.Check(t.Context(), latest))

	ok(node.Restore(backup))
	ok(node.Restart(await.Context(t)))
	restored := grant(1)
	if err := restored.In(latest.Scope); err != nil || restored.Token >= latest.Token {
		t.Fatalf("%v after %v: %v: the token did not decrease", restored, latest, err)
	}
	if err := gate.Check(t.Context(), restored); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a lowered token: %v", err)
	}
	if err := gate.Check(t.Context(), grant(100)); err != nil {
		t.Errorf("a token that rose again: %v", err)
	}

	_, err := s.etcdClient(t).Delete(await.Context(t), "baton-test/./baton/service+record")
	ok(err)
	cured := grant(1)
	if err := gate.Check(t.Context(), cured); !errors.Is(err, fence.ErrForeign) {
		t.Errorf("after the cure: %v", err)
	}
	ok(node.Wipe())
	ok(node.Restart(await.Context(t)))
	if empty := grant(1); empty.Service == cured.Service || empty.Service == before.Service {
		t.Errorf("the identity of a service without its data is %q", empty.Service)
	}
}
