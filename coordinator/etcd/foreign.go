package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the layout of etcd's package concurrency, which etcdctl lock,
// etcdctl elect, and the server's lock and election services, jetcd's among
// their users, have in common:
//
//	<namespace>/<name>/<lease>
//
// The key is bound to the lease, which its last part names in hex, and its
// create revision is the order. A mutex shows nothing as the value, an election
// what its candidate has to say. Mutexes and elections of one name are one
// queue.

// The layouts of queues.
const (
	// Native is Baton's own layout.
	Native = "native"
	// Concurrency is that of etcd's package concurrency.
	Concurrency = "concurrency"
)

// Layout says how queues are laid out: [Native], which is the default, or
// [Concurrency]. Under the latter the other client gets as its prefix, or lock
// name, what Baton gets as the name: concurrency.NewMutex(s, "/locks/orders"),
// etcdctl lock /locks/orders and mutex.New(c, "/locks/orders") exclude each
// other. With a namespace that and a "/" come before it. See the package's
// comment for what is different on such queues.
func Layout(name string) Option {
	return func(o *options) error {
		if name != Native && name != Concurrency {
			return invalid("layout %q; want %s or %s", name, Native, Concurrency)
		}
		o.shared = name == Concurrency
		return nil
	}
}

// host is a service whose queues are shared with others.
type host struct{ *service }

var _ driver.Sharer = host{}

func newHost(s *service) host {
	s.keys.shared = true
	if s.namespace != "" {
		s.keys.root = s.namespace + "/"
	}
	return host{s}
}

// Open starts a session whose queues are shared.
func (h host) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := h.service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	own := s.(*session)
	return &foreignSession{session: own, leases: newLeases(own.lease)}, nil
}

// SharedName takes what others take, any text that is not empty, but for what
// lies in the range of the sessions' keys.
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

// sharedName is what the name of a queue was.
func sharedName(queue driver.Queue) string {
	_, escaped, _ := strings.Cut(string(queue), "/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped
	}
	return name
}

// SharedValue is the payload: a mutex of the other client has no value, and a
// candidate's is all that its election shows.
func (h host) SharedValue(_, _ string, payload []byte) ([]byte, error) { return payload, nil }

// bareHex writes a lease as package concurrency does.
func bareHex(lease clientv3.LeaseID) string { return fmt.Sprintf("%x", int64(lease)) }

// ambiguous is the error for a queue that has keys which none of the clients
// made that share it, nil if there are none.
//
// Package concurrency waits for any key below the name. One that is bound to no
// lease stays until somebody deletes it, and one further below belongs to a
// queue of another name that lies in this one.
func (l layout) ambiguous(queue driver.Queue, kvs ...*mvccpb.KeyValue) error {
	var strays []string
	for _, kv := range kvs {
		if bare, _ := strings.CutPrefix(string(kv.Key), l.queue(queue)); kv.Lease == 0 || bare != bareHex(clientv3.LeaseID(kv.Lease)) {
			strays = append(strays, fmt.Sprintf("%q", kv.Key))
		}
	}
	if len(strays) == 0 {
		return nil
	}
	slices.Sort(strays)
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"etcd: queue %q has keys that are no contender's, since they do not end in the lease that they are bound to: %s",
		sharedName(queue), strings.Join(strays, ", ")))
}

// foreignSession is a session whose queues are shared with etcd's package concurrency. It
// has no tails and no marks, converts nothing and keeps no records. What it has
// of session is the lease, the sentinel with its epoch, watches and reads.
type foreignSession struct {
	*session
	leases *leases
}

// mostShown bounds what one who is to be alone is shown of those who are not.
const mostShown = 16

// contender is the key of one who has a lease.
func (g *foreignSession) contender(queue driver.Queue, l *lease) string {
	return g.keys.queue(queue) + bareHex(l.id)
}

// Join writes the key in one transaction, which counts the queue: whoever is
// alone in it holds. The sentinel's epoch and what is done about requests that
// are late are those of session.Join.
func (g *foreignSession) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	switch {
	case !isID(c.ID) || !isMode(c.Mode):
		return driver.Joined{}, invalid("contender ID %q, mode %q", c.ID, c.Mode)
	case c.Record != 0:
		return driver.Joined{}, errNoRecords
	}
	if err := g.alive(); err != nil {
		return driver.Joined{}, err
	}
	l, err := g.lease(ctx, queue, c.ID)
	if err != nil {
		return driver.Joined{}, err
	}
	a := &entrance{Contender: c, queue: queue, lease: l.id, key: g.contender(queue, l), fence: c.Again}
	call, err := g.joins.enter(a.key, g.alive)
	if err != nil {
		return driver.Joined{}, err
	}
	defer g.joins.exit(a.key, call)
	for ; ; a.fence = false {
		if a.epoch, err = g.joins.take(call); err != nil {
			return driver.Joined{}, err
		}
		resp, err := g.enter(ctx, a)
		if isAnswer(err, rpctypes.ErrNoSpace) { // see madeWithoutSpace
			e, look := g.madeWithoutSpace(ctx, clientv3.OpGet(a.key, clientv3.WithKeysOnly()))
			if look != nil {
				return driver.Joined{}, look
			}
			if e != (entry{}) {
				return g.joined(a, e.rev, 0), nil
			}
		}
		if err != nil {
			if kind := kindOf(err); !errors.Is(kind, driver.ErrRefused) {
				g.joins.lost(a.key, call, a.epoch)
			} else if !c.Again {
				g.release(queue, c.ID, a.key)
			}
			return driver.Joined{}, g.failed(ctx, err)
		}
		if resp.Succeeded {
			return g.joined(a, resp.Header.Revision, resp.Responses[1].GetResponseRange().Count), nil
		}
		if joined, again, err := g.shutOut(a, resp.Responses); !again {
			return joined, err
		}
	}
}

// entrance is one transaction of a foreignSession's Join.
type entrance struct {
	driver.Contender
	queue driver.Queue
	lease clientv3.LeaseID
	key   string
	epoch int64
	fence bool
}

func (g *foreignSession) enter(ctx context.Context, a *entrance) (*clientv3.TxnResponse, error) {
	absent := clientv3.Compare(clientv3.CreateRevision(a.key), "=", 0)
	if a.Alone {
		absent = clientv3.Compare(clientv3.CreateRevision(g.keys.queue(a.queue)).WithPrefix(), "=", 0)
	}
	then := []clientv3.Op{
		clientv3.OpPut(a.key, string(a.Value), clientv3.WithLease(a.lease)),
		clientv3.OpGet(g.keys.queue(a.queue), clientv3.WithPrefix(), clientv3.WithCountOnly()),
	}
	var otherwise []clientv3.Op
	if a.fence {
		then, otherwise = append(then, g.raiseEpoch()), append(otherwise, g.raiseEpoch())
	}
	otherwise = append(otherwise, g.readSentinel(), clientv3.OpGet(a.key, clientv3.WithKeysOnly()),
		clientv3.OpGet(g.keys.queue(a.queue), clientv3.WithPrefix(), clientv3.WithLimit(mostShown)))
	resp, err := g.c.Txn(g.lead(ctx)).
		If(clientv3.Compare(clientv3.ModRevision(g.sentinel.key), "=", a.epoch), absent).
		Then(then...).Else(otherwise...).Commit()
	if err == nil && a.fence {
		g.joins.raise(resp.Header.Revision)
	}
	return resp, err
}

// joined is the outcome of an attempt that has made the key, or found it, in a queue of so many.
func (g *foreignSession) joined(a *entrance, rev, count int64) driver.Joined {
	p := driver.Place{Key: entry{a.key, rev}.handle(), ID: a.ID, Mode: a.Mode, Session: g.ID()}
	return driver.Joined{Place: p, Token: driver.Token(rev), First: count == 1}
}

// shutOut finds out from the else branch why nothing was written, as session.refused does.
func (g *foreignSession) shutOut(a *entrance, ops []*pb.ResponseOp) (joined driver.Joined, again bool, err error) {
	if a.fence {
		ops = ops[1:]
	}
	if err := g.judgeSentinel(ops[0].GetResponseRange().Kvs); err != nil {
		return joined, false, err
	}
	epoch := modRevision(ops[0].GetResponseRange().Kvs)
	g.joins.raise(epoch)
	own, inQueue := ops[1].GetResponseRange().Kvs, ops[2].GetResponseRange()
	switch {
	case len(own) > 0 && a.Again:
		return g.joined(a, own[0].CreateRevision, inQueue.Count), false, nil
	case len(own) > 0:
		g.release(a.queue, a.ID, a.key)
		return joined, false, driver.Wrap(driver.ErrRefused, errors.New("etcd: somebody else has made a key for the session's lease: "+a.key))
	case a.Alone && inQueue.Count > 0:
		g.release(a.queue, a.ID, a.key)
		if err := g.keys.ambiguous(a.queue, inQueue.Kvs...); err != nil {
			return joined, false, err
		}
		return joined, false, driver.ErrTaken
	case epoch > a.epoch:
		return joined, true, nil
	}
	return joined, false, driver.Wrap(driver.ErrUnavailable, errNoReason)
}

// release drops what is remembered of a contender that has no key and cannot get one.
func (g *foreignSession) release(queue driver.Queue, id, key string) {
	g.removed(key)
	g.leases.free(queue, id)
}

// Ahead reads who came before own, as session.Ahead does.
func (g *foreignSession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	if err := g.alive(); err != nil {
		return driver.View{}, err
	}
	opts := []clientv3.OpOption{clientv3.WithPrefix()} // keys alone would come without their leases
	get := g.get
	whole := own == driver.Place{}
	me, ok := g.keys.entry(queue, own)
	switch {
	case !whole && !ok:
		return driver.View{}, driver.ErrGone
	case !whole:
		opts = append(opts, clientv3.WithMaxCreateRev(me.rev))
		get = func(ctx context.Context, ops ...clientv3.Op) (reading, error) {
			return g.read(ctx, max(me.rev, g.seen.Load()), ops...)
		}
	}
	r, err := get(ctx, clientv3.OpGet(g.keys.queue(queue), opts...))
	if err != nil {
		return driver.View{}, g.failed(ctx, err)
	}
	standing := g.keys.inOrder(queue, r.kvs)
	i := len(standing)
	if !whole {
		i = slices.IndexFunc(standing, func(h driver.Head) bool { return h.Key == me.handle() })
	}
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	if err := g.keys.ambiguous(queue, r.kvs...); err != nil {
		return driver.View{}, err
	}
	v := driver.View{Ahead: places(standing[:i]), Last: whole || r.count == int64(i)+1}
	if i > 0 && !whole {
		g.nearest.Store(&sighting{v.Ahead[i-1].Key, r.rev})
	}
	return v, nil
}

// Capabilities lack handoffs, which no other client of the layout knows of, and
// conversions, which no recipe that the layout has wants.
func (g *foreignSession) Capabilities() driver.Capabilities {
	return driver.Capabilities{Writer: g, HeadWatcher: g, Operator: g, ReuseIDs: true}
}

// own finds out which key of this session a place names. The key itself does
// not say whose contender it is.
func (g *foreignSession) own(queue driver.Queue, p driver.Place) (mine, error) {
	e, ok := g.keys.entry(queue, p)
	if l := g.leases.find(queue, p.ID); !ok || p.ID == "" || p.Session != g.ID() || l == nil || g.contender(queue, l) != e.key {
		return mine{}, driver.ErrGone
	}
	return mine{e, name{id: p.ID, lease: strings.TrimPrefix(e.key, g.keys.queue(queue)), mode: p.Mode}, e.key}, nil
}

// Write is session.Write, with the key's lease.
func (g *foreignSession) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	if err := g.alive(); err != nil {
		return err
	}
	e, err := g.own(queue, own)
	if err != nil {
		return err
	}
	return g.write(ctx, e, value, clientv3.WithIgnoreLease())
}

// Leave deletes the key if it is the one that own names.
func (g *foreignSession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if err := g.alive(); err != nil {
		return err
	}
	e, err := g.own(queue, own)
	if err != nil {
		return err
	}
	resp, err := g.c.Txn(g.lead(ctx)).If(e.stands()).Then(clientv3.OpDelete(e.key)).Commit()
	if err != nil {
		return g.failed(ctx, err)
	}
	g.release(queue, e.id, e.key)
	if !resp.Succeeded {
		return driver.ErrGone
	}
	return nil
}

// Forget is session.Forget. One who has no lease has sent nothing.
func (g *foreignSession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if err := g.alive(); err != nil {
		return err
	}
	if !isID(id) {
		return invalid("contender ID %q", id)
	}
	l := g.leases.find(queue, id)
	if l == nil {
		return nil
	}
	key := g.contender(queue, l)
	g.joins.forget(key)
	resp, err := g.c.Txn(g.lead(ctx)).Then(clientv3.OpDelete(key), g.raiseEpoch()).Commit()
	if isAnswer(err, rpctypes.ErrNoSpace) {
		if _, again := g.c.Delete(g.lead(ctx), key); again != nil {
			return g.failed(ctx, again)
		}
		if g.joins.late(key) {
			return driver.Wrap(driver.ErrUnavailable, answer(err))
		}
		g.release(queue, id, key)
		return nil
	}
	if err != nil {
		return g.failed(ctx, err)
	}
	g.release(queue, id, key)
	if !resp.Responses[1].GetResponseTxn().Succeeded {
		g.end()
		return driver.ErrSessionLost
	}
	g.joins.raise(resp.Header.Revision)
	return nil
}

var (
	errNoLines       = invalid("queues cannot be listed in layout %s, whose keys do not say what is a queue: name the one that you want", Concurrency)
	errNoRecords     = invalid("layout %s has no records", Concurrency)
	errNoConversions = invalid("layout %s has no conversions", Concurrency)
)

// Queues is refused.
func (g *foreignSession) Queues(context.Context) ([]driver.Queue, error) { return nil, errNoLines }

// Convert is refused: no recipe that the layout has wants it.
func (g *foreignSession) Convert(context.Context, driver.Queue, driver.Joined, string, []byte) (driver.Place, error) {
	return driver.Place{}, errNoConversions
}

// Record is refused.
func (g *foreignSession) Record(context.Context, driver.Queue, driver.Version) (driver.Record, error) {
	return driver.Record{}, errNoRecords
}

// SetRecord is refused.
func (g *foreignSession) SetRecord(context.Context, driver.Queue, []byte, driver.Version) (driver.Version, error) {
	return 0, errNoRecords
}
