// Package masked runs the conformance suite on foreign layouts. Their entries
// do not name their contender, so a mask between the suite and the driver adds
// it.
package masked

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

// Harness returns a harness of drivers with a foreign layout for the cases that
// apply to such layouts. In Remove the queue is the other client's name.
func Harness(h coordinatortest.Harness) coordinatortest.Harness {
	h.Without = notShared
	h.Lacks = withLacks(h.Lacks)
	start := h.Start
	h.Start = func(t *testing.T) coordinatortest.Service { return masked(start(t)) }
	return h
}

// withLacks adds the capabilities that a foreign layout lacks, or that the mask
// hides.
func withLacks(lacks map[coordinatortest.Lever]string) map[coordinatortest.Lever]string {
	all := map[coordinatortest.Lever]string{
		coordinatortest.Handoff:      "the layout has no handoff",
		coordinatortest.QueueWatcher: "no recipe of the layout has many waiters of one session",
		coordinatortest.Converter:    "no recipe of the layout converts an entry back, as the cases do",
		coordinatortest.External:     "the layout needs leases of the driver",
	}
	maps.Copy(all, lacks)
	return all
}

const (
	records  = "the layout has no records, and the case writes one"
	noQueues = "the other clients' names do not mark queues"
)

// notShared lists the cases that do not apply to foreign layouts.
var notShared = map[string]string{
	"D1/": records, "D2/": records, "D3/": records, "D4/": records, "SetRecord/": records,
	"Record/": records, "Record,D2/": records, "Version,Record/": records,
	"J7/": records, "J2,J7/": records, "V6/": records, "W5/Record": records,
	"C1/requests under way": records, "G3/": records,

	"J8/nearest": "the nearest entry is unknown, or found by a listing",

	"E1/": noQueues, "E2/": noQueues,

	"Queue/":                              "names nest, as they do for the other client",
	"J2/joining again after a lost reply": "an entry does not name its contender, so a lost reply to Join cannot be resolved",
}

// mask maps the keys of shared queues to the entries that their makers
// reported.
type mask struct {
	mu    sync.Mutex
	known map[string]driver.Place
}

func masked(svc coordinatortest.Service) coordinatortest.Service {
	m := &mask{known: make(map[string]driver.Place)}
	connect, remove, stall := svc.Connect, svc.Remove, svc.Stall
	svc.Connect = func() (coordinatortest.Client, error) {
		c, err := connect()
		c.Driver = maskedDriver{c.Driver, m}
		return c, err
	}
	svc.Remove = func(ctx context.Context, queue driver.Queue, p driver.Place) error {
		_, name, _ := strings.Cut(string(queue), "/")
		return remove(ctx, driver.Queue(name), p)
	}
	if stall != nil {
		svc.Stall = func(ctx context.Context, c coordinatortest.Client) (heal func(), err error) {
			if d, ok := c.Driver.(maskedDriver); ok { // the harness knows its own
				c.Driver = d.Driver
			}
			return stall(ctx, c)
		}
	}
	return svc
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

// Capabilities returns the session's, with wrappers. Conversions are hidden:
// the cases convert an entry back.
func (s *maskedSession) Capabilities() driver.Capabilities {
	c := s.Offer(s)
	c.Converter = nil
	return c
}

// shared maps a queue of the suite to a queue that the layouts have.
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
