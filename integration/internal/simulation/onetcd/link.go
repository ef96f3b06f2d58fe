package onetcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// link is a simulation.Link: the process of a client.
type link struct {
	*virtualetcd.Link
	s *service
	d driver.Driver

	mu       sync.Mutex
	sessions []string
	opened   time.Time // when the latest session was opened
}

// Connect starts a client. Some clients have external leases.
func (s *service) Connect(name string) (simulation.Link, error) {
	l := &link{Link: s.Link(), s: s}
	r := s.rng("client " + name)
	var err error
	if s.external && r.IntN(4) > 0 {
		l.d, err = s.onLeases(l, r)
	} else {
		l.d, err = l.DriverOf(s.user, namespace, "")
	}
	if err != nil {
		return nil, err
	}
	l.d = &tagged{l.d, l}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[l.Link] = l
	s.ordered = append(s.ordered, l)
	return l, nil
}

// close ends the client's process.
func (l *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.d.Close(ctx)
}

func (l *link) Driver() driver.Driver { return l.d }

func (l *link) Expire() (some bool) {
	l.mu.Lock()
	sessions := l.sessions
	l.mu.Unlock()
	for _, session := range sessions {
		some = l.s.Expire(session) || some
	}
	return some
}

// tagged is a driver whose requests say which call sends them, where their keys
// do not say it.
type tagged struct {
	driver.Driver
	l *link
}

// tag is the name of a request's metadata.
const tag = "world-call"

// tag marks the requests of a call. Joins and deletes that the driver may send
// together have no tag: it sends requests with metadata alone.
func (l *link) tag(ctx context.Context, session string) context.Context {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	name := fmt.Sprint(len(l.s.calls))
	l.s.calls[name] = call{ctx, session}
	return metadata.AppendToOutgoingContext(ctx, tag, name)
}

func (d *tagged) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(d.l.tag(ctx, ""), ttl)
	if err != nil {
		return nil, err
	}
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	d.l.sessions, d.l.opened = append(d.l.sessions, s.ID()), time.Now()
	return &taggedSession{coordinatortest.WithCapabilities(s), d.l}, nil
}

type taggedSession struct {
	coordinatortest.Full
	l *link
}

// Err says why the driver's session is over, if it does.
func (s *taggedSession) Err() error {
	if says, ok := s.Session.(interface{ Err() error }); ok {
		return says.Err()
	}
	return nil
}

func (s *taggedSession) Capabilities() driver.Capabilities { return s.Offer(s) }

func (s *taggedSession) tag(ctx context.Context) context.Context { return s.l.tag(ctx, s.ID()) }

func (s *taggedSession) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	if c.Alone {
		ctx = s.tag(ctx)
	}
	return s.Full.Join(ctx, queue, c)
}

func (s *taggedSession) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	return s.Full.Ahead(s.tag(ctx), queue, own)
}

func (s *taggedSession) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	return s.Full.Watch(s.tag(ctx), queue, places...)
}

func (s *taggedSession) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (bool, error) {
	return s.Full.Follow(s.tag(ctx), queue, own, ahead)
}

func (s *taggedSession) WatchQueue(
	ctx context.Context, queue driver.Queue, see func([]driver.Place) bool,
) error {
	return s.Full.WatchQueue(s.tag(ctx), queue, see)
}

func (s *taggedSession) List(
	ctx context.Context, queue driver.Queue, limit int,
) ([]driver.Entry, error) {
	return s.Full.List(s.tag(ctx), queue, limit)
}

func (s *taggedSession) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	return s.Full.Head(s.tag(ctx), queue, known)
}

func (s *taggedSession) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	return s.Full.Record(s.tag(ctx), queue, known)
}

func (s *taggedSession) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	return s.Full.SetRecord(s.tag(ctx), queue, value, known)
}
