package bench

import (
	"maps"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/etcdcount"
	"github.com/baton-go/baton/integration/internal/zkwire"
)

// access is a subject's way to the service. Counting costs time, so timed
// rounds use the servers directly; counted rounds go through a proxy and are
// not timed.
type access struct {
	service string // etcd or zookeeper
	addrs   []string
	dial    []grpc.DialOption // etcd's interceptors, if requests are counted
	// curators is the process that plays for Curator.
	curators *curators
}

// Counts has the clients' requests, events and bytes.
type Counts struct {
	// Ops counts requests by the service's names. "Watch" is the creation of a
	// watch on etcd; on ZooKeeper a read sets the watch.
	Ops map[string]float64 `json:"ops"`
	// Requests is the sum of Ops, without renewals, pings and cancels of
	// watches.
	Requests float64 `json:"requests"`
	// Events are changes that the servers reported.
	Events float64 `json:"events"`
	// In and Out are bytes to and from the client, renewals included.
	In  float64 `json:"bytes_in"`
	Out float64 `json:"bytes_out"`
}

func (c Counts) minus(o Counts) Counts {
	d := Counts{maps.Clone(c.Ops), c.Requests - o.Requests, c.Events - o.Events, c.In - o.In, c.Out - o.Out}
	for op := range d.Ops {
		if d.Ops[op] -= o.Ops[op]; d.Ops[op] == 0 {
			delete(d.Ops, op)
		}
	}
	return d
}

func (c Counts) plus(o Counts) Counts {
	d := Counts{maps.Clone(c.Ops), c.Requests + o.Requests, c.Events + o.Events, c.In + o.In, c.Out + o.Out}
	if d.Ops == nil {
		d.Ops = map[string]float64{}
	}
	for op, n := range o.Ops {
		d.Ops[op] += n
	}
	return d
}

func (c Counts) per(turns float64) Counts {
	d := Counts{map[string]float64{}, c.Requests / turns, c.Events / turns, c.In / turns, c.Out / turns}
	for op, n := range c.Ops {
		d.Ops[op] = n / turns
	}
	return d
}

// meter is a way to the service that counts everything.
type meter struct {
	access
	proxy   *netproxy.Proxy
	zk      *zkwire.Counter
	etcd    *etcdcount.Counter
	in, out atomic.Int64
}

func newMeter(a access) (*meter, error) {
	m := &meter{access: a, zk: zkwire.NewCounter(), etcd: etcdcount.New()}
	var err error
	if m.proxy, err = netproxy.New(a.addrs, netproxy.WithSniffer(m.sniffer)); err != nil {
		return nil, err
	}
	m.addrs = []string{m.proxy.Addr()}
	if m.service == "etcd" {
		m.dial = m.etcd.DialOptions()
	}
	return m, nil
}

func (m *meter) snapshot() Counts {
	c := Counts{Ops: map[string]float64{}, In: float64(m.in.Load()), Out: float64(m.out.Load())}
	if m.service == "etcd" {
		s := m.etcd.Snapshot()
		for op, n := range s.Unary {
			c.Ops[op] = float64(n)
		}
		c.Ops["Watch"] = float64(s.WatchCreates)
		c.Events = float64(s.WatchEvents)
	} else {
		s := m.zk.Snapshot()
		for op, n := range s.Requests {
			c.Ops[op] = float64(n)
		}
		// Baton renews its session with syncs.
		delete(c.Ops, "sync")
		c.Events = float64(s.Notifications)
	}
	for _, n := range c.Ops {
		c.Requests += n
	}
	return c
}

func (m *meter) close() { m.proxy.Close() }

// sniffer counts the bytes of one connection, and ZooKeeper's requests.
func (m *meter) sniffer() netproxy.Sniffer {
	s := &sniffer{meter: m}
	if m.service == "zookeeper" {
		s.inner = m.zk.Sniffer()
	}
	return s
}

type sniffer struct {
	meter *meter
	inner netproxy.Sniffer
}

func (s *sniffer) Sniff(way netproxy.Direction, b []byte) []netproxy.Message {
	if way == netproxy.Up {
		s.meter.out.Add(int64(len(b)))
	} else {
		s.meter.in.Add(int64(len(b)))
	}
	if s.inner == nil {
		return nil
	}
	return s.inner.Sniff(way, b)
}
