// Package foreign is a driver for queues in the layout that etcd's package
// concurrency, etcdctl lock, etcdctl elect and the server's lock and election
// services share (jetcd uses the latter):
//
//	<namespace>/<name>/<lease>
//
// The key is bound to the lease, its last part is the lease in hex, and its
// create revision is the order. A mutex writes no value, an election its
// candidate's proclamation. Mutexes and elections of one name share one queue.
//
// The driver has the core contract, without records, and what elections and
// operators need. It has no tail keys, handoff markers and conversions, which
// the other clients do not know.
//
//	driver.go   the driver, and the names of keys
//	session.go  the methods of a session
//	leases.go   the leases of a session, one for each of its contenders in a queue
package foreign

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/internal/hint"
)

// Concurrency is the name of the layout.
const Concurrency = "concurrency"

// Service is an etcd without a layout of queues.
type Service interface {
	driver.Examiner
	fmt.Stringer
	Close(ctx context.Context) error
	// Begin starts a session, as driver.Driver's Open.
	Begin(ctx context.Context, layout lease.Layout, ttl time.Duration) (*lease.Session, error)
}

// Driver is a driver for queues shared with package concurrency.
type Driver struct {
	Service
	keys layout
}

var _ driver.Sharer = Driver{}

// New returns a driver for the queues of a namespace.
func New(s Service, namespace string) Driver {
	if namespace != "" {
		namespace += "/"
	}
	return Driver{s, layout{namespace}}
}

// Open starts a session.
func (d Driver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Begin(ctx, d.keys, ttl)
	if err != nil {
		return nil, err
	}
	return &session{Session: s, keys: d.keys, leases: newLeases(s.Lease)}, nil
}

// SharedName accepts what the other clients accept, any text that is not empty,
// except in the range of the sessions' keys.
func (d Driver) SharedName(kind, name string) (string, error) {
	switch {
	case kind != "mutex" && kind != "election":
		return "", answer.Invalid("%s %q: layout %s has mutexes and elections only",
			kind, name, Concurrency)
	case name == "":
		return "", answer.Invalid("name is empty")
	case len(name) > coordinator.MaxName:
		return "", answer.Invalid("name %.20q… has %d bytes; at most %d are allowed",
			name, len(name), coordinator.MaxName)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", answer.Invalid("name %q is not valid UTF-8, or has a NUL", name)
	case name == "." || strings.HasPrefix(name, "./"):
		return "", answer.Invalid("name %q begins with the segment %q", name, ".")
	}
	return name, nil
}

// SharedValue is the payload: the other clients' mutexes have no value, and an
// election shows only its candidate's.
func (d Driver) SharedValue(_, _ string, payload []byte) ([]byte, error) { return payload, nil }

// layout names the keys of one namespace. It implements lease.Layout.
type layout struct {
	root string // "<namespace>/"
}

// sharedName is the other clients' name of a queue.
func sharedName(queue driver.Queue) string {
	_, escaped, _ := strings.Cut(string(queue), "/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped
	}
	return name
}

// Queue is the prefix of a queue's keys.
func (l layout) Queue(queue driver.Queue) string { return l.root + sharedName(queue) + "/" }

// bareHex formats a lease as package concurrency does.
func bareHex(lease clientv3.LeaseID) string { return fmt.Sprintf("%x", int64(lease)) }

// Entry parses the handle of a place of the queue.
func (l layout) Entry(queue driver.Queue, p driver.Place) (keys.Entry, bool) {
	e, ok := keys.ParseHandle(p.Key)
	return e, ok && strings.HasPrefix(e.Key, l.Queue(queue))
}

// Named is the entry with this handle and token.
func (l layout) Named(
	queue driver.Queue, handle string, token driver.Token,
) (keys.Entry, bool) {
	e, ok := l.Entry(queue, driver.Place{Key: handle})
	return e, ok && driver.Token(e.Rev) == token
}

// First reads the first limit keys of a queue.
func (l layout) First(queue driver.Queue, limit int) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(l.Queue(queue), clientv3.WithPrefix(),
		clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))}
}

// InOrder returns the keys of a queue as entries, in order. The session is the
// lease in the key's name; the lease that etcd reports would be safer, but
// views without values lack it.
func (l layout) InOrder(queue driver.Queue, kvs []*mvccpb.KeyValue) []driver.Head {
	heads := make([]driver.Head, len(kvs))
	for i, kv := range kvs {
		e := keys.Entry{Key: string(kv.Key), Rev: kv.CreateRevision}
		p := driver.Place{Key: e.Handle()}
		bare := strings.TrimPrefix(e.Key, l.Queue(queue))
		if n := len(bare); n > 0 && n <= 16 && strings.Trim(bare, "0123456789abcdef") == "" {
			p.Session = strings.Repeat("0", 16-n) + bare
		}
		heads[i] = driver.Head{
			Entry: driver.Entry{Place: p, Token: driver.Token(e.Rev), Value: kv.Value,
				Stray: hint.Stray(kv.Lease != 0, "etcdctl del", e.Key)},
			Version: driver.Version(kv.ModRevision),
		}
	}
	slices.SortFunc(heads, keys.Before)
	return heads
}

// ambiguous returns the error for a queue with stray keys, else nil.
//
// Package concurrency waits for any key below the name. A key without a lease
// stays until someone deletes it. A key further below belongs to another queue
// inside this one.
func (l layout) ambiguous(queue driver.Queue, kvs ...*mvccpb.KeyValue) error {
	var strays []string
	for _, kv := range kvs {
		bare, _ := strings.CutPrefix(string(kv.Key), l.Queue(queue))
		if kv.Lease == 0 || bare != bareHex(clientv3.LeaseID(kv.Lease)) {
			strays = append(strays, string(kv.Key))
		}
	}
	if len(strays) == 0 {
		return nil
	}
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"etcd: queue %q has keys that are not a contender's, "+
			"since they do not end in their lease; if unused, remove them: %s",
		sharedName(queue), hint.Removal("etcdctl del", "", strays...)))
}
