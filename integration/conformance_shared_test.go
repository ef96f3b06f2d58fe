package integration_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
)

// TestConformanceOfSharedQueues runs the suite on queues that are laid out as those of other clients. Entries there do not tell whose they
// are, so a mask between the suite and the driver does.
func TestConformanceOfSharedQueues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		harness func(t *testing.T, nodes int, query string) coordinatortest.Harness
		layout  string
		nodes   int
	}{
		{"etcd", etcdHarness, "concurrency", 1},
		{"zookeeper", zooKeeperHarness, "curator", 1},
		{"zookeeper-3", zooKeeperHarness, "kazoo", 3},
	} {
		t.Run(c.name+" "+c.layout, func(t *testing.T) {
			if c.nodes > 1 {
				expensive(t) // the code is that of layout=curator, but for the names
			}
			t.Parallel()
			h := c.harness(t, c.nodes, "layout="+c.layout)
			h.Without = notShared
			h.Lacks = withLacks(h.Lacks, c.layout)
			coordinatortest.Run(t, masked(h))
		})
	}
}

// withLacks adds the capabilities that a foreign layout does not have.
func withLacks(lacks map[coordinatortest.Lever]string, layout string) map[coordinatortest.Lever]string {
	all := map[coordinatortest.Lever]string{coordinatortest.Handoff: passes, coordinatortest.QueueWatcher: watches}
	if layout == "concurrency" {
		all[coordinatortest.Converter] = conversions
	}
	maps.Copy(all, lacks)
	return all
}

const (
	records     = "the layout has no records, and the case writes one"
	conversions = "no recipe of the layout converts its entries there and back, and the case does"
	passes      = "nobody passes"
	watches     = "no recipe of the layout has a crowd of one session that would need it"
	noQueues    = "the other clients' names do not say what is a queue"
)

// notShared are the cases that do not hold on queues that are shared.
var notShared = map[string]string{
	"J7/": records, "D": records, "Record/": records, "SetRecord/": records, "Version/": records, "V4/the whole queue is shown": records,
	"J2/joining again finds the entry though the record": records, "G1/many goroutines convert": records, "G3/": records,
	"C1/requests under way": records, "H2/an empty queue": records,

	"M":                        conversions, // Mode is among them: an entry has the mode that its mark says
	"C1/after close converted": conversions, "F1/forget removes a converted": conversions, "F1/forget removes what a lost conversion": conversions,
	"G1/many goroutines share a queue and convert": conversions, "H1/a conversion": conversions, "H1/the first is first although": conversions,
	"J2/joining again finds the converted": conversions, "J3/nobody is first behind a converted": conversions, "J6/a converted entry": conversions,
	"J6/nobody is alone or first beside": conversions, "Key/a conversion": conversions, "L1/a converted entry": conversions,
	"L2/leave with the place before": conversions, "List/a limit counts": conversions, "P1/a write is shown": conversions,
	"K1/a check knows at once who was converted": conversions, "K1/a check goes by the token too": conversions, "K2/a check finds an entry that was converted": conversions,
	"P2/a late write does not change the converted": conversions, "P2/a place that is gone": conversions, "V3/last is false in front of a converted": conversions,
	"V3/last is never true": conversions, "V4/the whole queue is as": conversions, "Last/": conversions, "W2/writes and conversions": conversions,
	"H1/a head shows": conversions, "H1/a head is never": conversions, "H2/others who come": conversions, "W1/a conversion": conversions,

	"J8/nearest": "it is not told, or by a listing",

	"X1/remove finds an entry that was converted": conversions,

	"E1/": noQueues, "E2/": noQueues,

	"Queue/":                              "names nest, as they do for the other client",
	"J2/joining again after a lost reply": "what is shown of an entry says nothing of a contender whose Join had no answer",
}

// mask knows the entries of shared queues by their keys: who made them has told it.
type mask struct {
	mu    sync.Mutex
	known map[string]driver.Place
}

func masked(h coordinatortest.Harness) coordinatortest.Harness {
	start := h.Start
	h.Start = func(t *testing.T) coordinatortest.Service {
		m := &mask{known: make(map[string]driver.Place)}
		svc := start(t)
		connect, remove := svc.Connect, svc.Remove
		svc.Connect = func() (coordinatortest.Client, error) {
			c, err := connect()
			c.Driver = maskedDriver{c.Driver, m}
			return c, err
		}
		svc.Remove = func(ctx context.Context, queue driver.Queue, p driver.Place) error {
			_, name, _ := strings.Cut(string(queue), "/")
			return remove(ctx, driver.Queue(name), p)
		}
		return svc
	}
	return h
}

type maskedDriver struct {
	driver.Driver
	*mask
}

func (d maskedDriver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &maskedSession{coordinatortest.WithCapabilities(s), d.mask}, nil
}

type maskedSession struct {
	coordinatortest.Full
	*mask
}

// Capabilities are the session's, with what is replaced.
func (s *maskedSession) Capabilities() driver.Capabilities { return s.Offer(s) }

// shared is the queue of a suite's, as one that the layouts have.
func shared(queue driver.Queue) driver.Queue {
	_, name, _ := strings.Cut(string(queue), "/")
	return driver.Queue("mutex/" + name)
}

func (m *mask) show(queue driver.Queue, p driver.Place) driver.Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.known[string(queue)+" "+p.Key]; ok {
		return known
	}
	return p
}

func (s *maskedSession) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	mode := c.Mode
	c.Mode = "x"
	j, err := s.Full.Join(ctx, shared(queue), c)
	if err == nil {
		j.Place.Mode = mode
		s.mu.Lock()
		s.known[string(queue)+" "+j.Place.Key] = j.Place
		s.mu.Unlock()
		j.Nearest = s.show(queue, j.Nearest)
	}
	return j, err
}

func (s *maskedSession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	v, err := s.Full.Ahead(ctx, shared(queue), own)
	for i, p := range v.Ahead {
		v.Ahead[i] = s.show(queue, p)
	}
	return v, err
}

func (s *maskedSession) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	return s.Full.Watch(ctx, shared(queue), places...)
}

func (s *maskedSession) Follow(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error) {
	return s.Full.Follow(ctx, shared(queue), own, ahead)
}

func (s *maskedSession) Convert(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	return s.Full.Convert(ctx, shared(queue), own, mode, value)
}

func (s *maskedSession) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	return s.Full.Write(ctx, shared(queue), own, value)
}

func (s *maskedSession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.Full.Leave(ctx, shared(queue), own)
}

func (s *maskedSession) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.Full.Pass(ctx, shared(queue), own)
}

func (s *maskedSession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return s.Full.Forget(ctx, shared(queue), id)
}

func (s *maskedSession) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	all, err := s.Full.List(ctx, shared(queue), limit)
	for i := range all {
		all[i].Place = s.show(queue, all[i].Place)
	}
	return all, err
}

func (s *maskedSession) Check(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	return s.Full.Check(ctx, shared(queue), key, token)
}

func (s *maskedSession) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	return s.Full.Remove(ctx, shared(queue), key, token)
}

func (s *maskedSession) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	h, err := s.Full.Head(ctx, shared(queue), known)
	h.Place = s.show(queue, h.Place)
	return h, err
}
