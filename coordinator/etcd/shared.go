package etcd

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
)

// This file has the layout of etcd's package concurrency, which etcdctl lock, etcdctl elect, and the server's lock
// and election services, jetcd's among their users, have in common:
//
//	<namespace>/<name>/<lease>
//
// The key is bound to the lease, which its last part names in hex, and its create revision is the order. A mutex shows nothing
// as the value, an election what its candidate has to say. Mutexes and elections of one name are one line.

// The layouts of lines.
const (
	// Native is Baton's own layout.
	Native = "native"
	// Concurrency is that of etcd's package concurrency.
	Concurrency = "concurrency"
)

// Layout says how lines are laid out: [Native], which is the default, or [Concurrency]. Under the latter the
// other client gets as its prefix, or lock name, what Baton gets as the name: concurrency.NewMutex(s, "/locks/orders"), etcdctl
// lock /locks/orders and mutex.New(c, "/locks/orders") exclude each other. With a namespace that and a "/" come before it. See the
// package's comment for what is different on such lines.
func Layout(name string) Option {
	return func(o *options) error {
		if name != Native && name != Concurrency {
			return invalid("layout %q; want %s or %s", name, Native, Concurrency)
		}
		o.shared = name == Concurrency
		return nil
	}
}

// host is a service whose lines are shared with others.
type host struct{ *service }

var _ driver.Sharer = host{}

func newHost(s *service) host {
	s.keys.shared = true
	if s.namespace != "" {
		s.keys.root = s.namespace + "/"
	}
	return host{s}
}

// Open starts a session whose lines are shared.
func (h host) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := h.service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	own := s.(*session)
	return &guest{session: own, leases: newLeases(own.lease)}, nil
}

// SharedName takes what others take, any text that is not empty, but for what lies in the range of the sessions' keys.
func (h host) SharedName(kind, name string) (string, error) {
	switch {
	case kind != "mutex" && kind != "election":
		return "", invalid("%s %q: layout %s has mutexes and elections only", kind, name, Concurrency)
	case name == "":
		return "", invalid("name is empty")
	case len(name) > coordinator.MaxName:
		return "", invalid("name %.20q… has %d bytes; at most %d are allowed", name, len(name), coordinator.MaxName)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", invalid("name %q is not valid UTF-8, or has a NUL", name)
	case name == "." || strings.HasPrefix(name, "./"):
		return "", invalid("name %q begins with the segment %q", name, ".")
	}
	return name, nil
}

// sharedName is what the name of a line was.
func sharedName(line driver.Line) string {
	_, escaped, _ := strings.Cut(string(line), "/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped
	}
	return name
}

// SharedValue is the payload: a mutex of the other client has no value, and a candidate's is all that its election shows.
func (h host) SharedValue(_, _ string, payload []byte) ([]byte, error) { return payload, nil }

// bareHex writes a lease as package concurrency does.
func bareHex(lease clientv3.LeaseID) string { return fmt.Sprintf("%x", int64(lease)) }

// ambiguous is the error for a line that has keys which none of the clients made that share it, nil if there are none.
//
// Package concurrency waits for any key below the name. One that is bound to no lease stays until somebody deletes it, and
// one further below belongs to a line of another name that lies in this one.
func (l layout) ambiguous(line driver.Line, kvs ...*mvccpb.KeyValue) error {
	var strays []string
	for _, kv := range kvs {
		if bare, _ := strings.CutPrefix(string(kv.Key), l.line(line)); kv.Lease == 0 || bare != bareHex(clientv3.LeaseID(kv.Lease)) {
			strays = append(strays, fmt.Sprintf("%q", kv.Key))
		}
	}
	if len(strays) == 0 {
		return nil
	}
	slices.Sort(strays)
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"etcd: line %q has keys that are no contender's, since they do not end in the lease that they are bound to: %s",
		sharedName(line), strings.Join(strays, ", ")))
}
