package coordinatortest

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// patchedDriver is a driver with some methods replaced.
type patchedDriver struct {
	driver.Driver
	open  func(ctx context.Context, ttl time.Duration) (driver.Session, error)
	patch func(s *patched)
}

func (d *patchedDriver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	open := d.Driver.Open
	if d.open != nil {
		open = d.open
	}
	s, err := open(ctx, ttl)
	if err != nil || d.patch == nil {
		return s, err
	}
	p := newPatched(s)
	d.patch(p)
	return p, nil
}

type (
	watchFunc  = func(ctx context.Context, queue driver.Queue, places ...driver.Place) error
	followFunc = func(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error)
	exitFunc   = func(ctx context.Context, queue driver.Queue, own driver.Place) error
	keyFunc    = func(ctx context.Context, queue driver.Queue, key string, token driver.Token) error
)

// patched is a session whose methods can be replaced one by one, or wrapped by
// around.
type patched struct {
	session
	around func(ctx context.Context, method string, intact func(ctx context.Context) error) error

	id    string
	ttl   time.Duration
	slack time.Duration
	done  <-chan struct{}

	ownWatched bool

	renew, close func(ctx context.Context) error
	join         func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error)
	ahead        func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error)
	watch        watchFunc
	leave, pass  exitFunc
	forget       func(ctx context.Context, queue driver.Queue, id string) error
	list         func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error)
	record       readFunc[driver.Record]
	setRecord    func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error)
	follow       followFunc
	convert      func(
		ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
	) (driver.Place, error)
	write         func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error
	head          readFunc[driver.Head]
	watchQueue    func(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error
	check, remove keyFunc
	queues        func(ctx context.Context) ([]driver.Queue, error)
}

func newPatched(session driver.Session) *patched {
	s := WithCapabilities(session)
	return &patched{
		session: s, id: s.ID(), ttl: s.TTL(), slack: s.Slack(), done: s.Done(),
		around: func(ctx context.Context, _ string, intact func(ctx context.Context) error) error { return intact(ctx) },
		renew:  s.Renew, close: s.Close, join: s.Join, ahead: s.Ahead, watch: s.Watch,
		leave: s.Leave, pass: s.Pass, forget: s.Forget, list: s.List, record: s.Record, setRecord: s.SetRecord,
		follow: s.Follow, convert: s.Convert, write: s.Write, head: s.Head, watchQueue: s.WatchQueue,
		check: s.Check, remove: s.Remove, queues: s.Queues,
	}
}

func (s *patched) Capabilities() driver.Capabilities {
	c := s.Offer(s)
	c.OwnWatched = c.OwnWatched || s.ownWatched
	return c
}

func (s *patched) ID() string            { return s.id }
func (s *patched) TTL() time.Duration    { return s.ttl }
func (s *patched) Slack() time.Duration  { return s.slack }
func (s *patched) Done() <-chan struct{} { return s.done }

// calling makes a call with two results through around.
func calling[T any](
	ctx context.Context, s *patched, method string, call func(ctx context.Context) (T, error),
) (got T, err error) {
	err = s.around(ctx, method, func(ctx context.Context) (err error) {
		got, err = call(ctx)
		return err
	})
	return got, err
}

func (s *patched) Renew(ctx context.Context) error { return s.around(ctx, "Renew", s.renew) }
func (s *patched) Close(ctx context.Context) error { return s.around(ctx, "Close", s.close) }

func (s *patched) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	return calling(ctx, s, "Join", func(ctx context.Context) (driver.Joined, error) { return s.join(ctx, queue, c) })
}

func (s *patched) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	return calling(ctx, s, "Ahead", func(ctx context.Context) (driver.View, error) { return s.ahead(ctx, queue, own) })
}

func (s *patched) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	return s.around(ctx, "Watch", func(ctx context.Context) error { return s.watch(ctx, queue, places...) })
}

func (s *patched) Follow(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error) {
	return calling(ctx, s, "Follow", func(ctx context.Context) (bool, error) { return s.follow(ctx, queue, own, ahead) })
}

func (s *patched) WatchQueue(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
	return s.around(ctx, "WatchQueue", func(ctx context.Context) error { return s.watchQueue(ctx, queue, show) })
}

func (s *patched) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	return calling(ctx, s, "Convert", func(ctx context.Context) (driver.Place, error) {
		return s.convert(ctx, queue, own, mode, value)
	})
}

func (s *patched) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	return s.around(ctx, "Write", func(ctx context.Context) error { return s.write(ctx, queue, own, value) })
}

func (s *patched) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.around(ctx, "Leave", func(ctx context.Context) error { return s.leave(ctx, queue, own) })
}

func (s *patched) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.around(ctx, "Pass", func(ctx context.Context) error { return s.pass(ctx, queue, own) })
}

func (s *patched) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return s.around(ctx, "Forget", func(ctx context.Context) error { return s.forget(ctx, queue, id) })
}

func (s *patched) Check(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	return s.around(ctx, "Check", func(ctx context.Context) error { return s.check(ctx, queue, key, token) })
}

func (s *patched) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	return s.around(ctx, "Remove", func(ctx context.Context) error { return s.remove(ctx, queue, key, token) })
}

func (s *patched) Queues(ctx context.Context) ([]driver.Queue, error) {
	return calling(ctx, s, "Queues", s.queues)
}

func (s *patched) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	return calling(ctx, s, "List", func(ctx context.Context) ([]driver.Entry, error) { return s.list(ctx, queue, limit) })
}

func (s *patched) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	return calling(ctx, s, waiting("Head", known), func(ctx context.Context) (driver.Head, error) {
		return s.head(ctx, queue, known)
	})
}

func (s *patched) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	return calling(ctx, s, waiting("Record", known), func(ctx context.Context) (driver.Record, error) {
		return s.record(ctx, queue, known)
	})
}

// waiting returns different names for a call that waits and one that reads.
func waiting(method string, known driver.Version) string {
	if known == driver.Any {
		return method + " of any version"
	}
	return method
}

func (s *patched) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	return calling(ctx, s, "SetRecord", func(ctx context.Context) (driver.Version, error) {
		return s.setRecord(ctx, queue, value, known)
	})
}
