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
	p := &patched{session: WithCapabilities(s)}
	d.patch(p)
	return p, nil
}

type (
	convertFunc   = func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error)
	followFunc    = func(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error)
	writeFunc     = func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error
	headFunc      = func(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error)
	recordFunc    = func(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error)
	setRecordFunc = func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error)
)

// patched is a session with some methods replaced; nil leaves a method as it is.
type patched struct {
	session
	id         string
	ttl        time.Duration
	slack      *time.Duration
	done       chan struct{}
	convert    convertFunc
	write      writeFunc
	head       headFunc
	record     recordFunc
	setRecord  setRecordFunc
	renew      func(ctx context.Context) error
	join       func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error)
	ahead      func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error)
	watch      func(ctx context.Context, queue driver.Queue, places []driver.Place) error
	follow     followFunc
	watchQueue func(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error
	leave      func(ctx context.Context, queue driver.Queue, own driver.Place) error
	pass       func(ctx context.Context, queue driver.Queue, own driver.Place) error
	forget     func(ctx context.Context, queue driver.Queue, id string) error
	check      func(ctx context.Context, queue driver.Queue, key string, token driver.Token) error
	remove     func(ctx context.Context, queue driver.Queue, key string, token driver.Token) error
	queues     func(ctx context.Context) ([]driver.Queue, error)
	list       func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error)
	close      func(ctx context.Context) error
}

// Capabilities are the replaced methods: those that are not do what the session does.
func (s *patched) Capabilities() driver.Capabilities {
	return s.Offer(s)
}

func (s *patched) ID() string {
	if s.id != "" {
		return s.id
	}
	return s.session.ID()
}

func (s *patched) TTL() time.Duration {
	if s.ttl != 0 {
		return s.ttl
	}
	return s.session.TTL()
}

func (s *patched) Slack() time.Duration {
	if s.slack != nil {
		return *s.slack
	}
	return s.session.Slack()
}

func (s *patched) Done() <-chan struct{} {
	if s.done != nil {
		return s.done
	}
	return s.session.Done()
}

func (s *patched) Renew(ctx context.Context) error {
	if s.renew != nil {
		return s.renew(ctx)
	}
	return s.session.Renew(ctx)
}

func (s *patched) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	if s.join != nil {
		return s.join(ctx, queue, c)
	}
	return s.session.Join(ctx, queue, c)
}

func (s *patched) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	if s.ahead != nil {
		return s.ahead(ctx, queue, own)
	}
	return s.session.Ahead(ctx, queue, own)
}

func (s *patched) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if s.watch != nil {
		return s.watch(ctx, queue, places)
	}
	return s.session.Watch(ctx, queue, places...)
}

func (s *patched) Follow(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error) {
	if s.follow != nil {
		return s.follow(ctx, queue, own, ahead)
	}
	return s.session.Follow(ctx, queue, own, ahead)
}

func (s *patched) WatchQueue(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
	if s.watchQueue != nil {
		return s.watchQueue(ctx, queue, show)
	}
	return s.session.WatchQueue(ctx, queue, show)
}

func (s *patched) Convert(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if s.convert != nil {
		return s.convert(ctx, queue, own, mode, value)
	}
	return s.session.Convert(ctx, queue, own, mode, value)
}

func (s *patched) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	if s.write != nil {
		return s.write(ctx, queue, own, value)
	}
	return s.session.Write(ctx, queue, own, value)
}

func (s *patched) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if s.leave != nil {
		return s.leave(ctx, queue, own)
	}
	return s.session.Leave(ctx, queue, own)
}

func (s *patched) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if s.pass != nil {
		return s.pass(ctx, queue, own)
	}
	return s.session.Pass(ctx, queue, own)
}

func (s *patched) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if s.forget != nil {
		return s.forget(ctx, queue, id)
	}
	return s.session.Forget(ctx, queue, id)
}

func (s *patched) Check(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	if s.check != nil {
		return s.check(ctx, queue, key, token)
	}
	return s.session.Check(ctx, queue, key, token)
}

func (s *patched) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	if s.remove != nil {
		return s.remove(ctx, queue, key, token)
	}
	return s.session.Remove(ctx, queue, key, token)
}

func (s *patched) Queues(ctx context.Context) ([]driver.Queue, error) {
	if s.queues != nil {
		return s.queues(ctx)
	}
	return s.session.Queues(ctx)
}

func (s *patched) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	if s.list != nil {
		return s.list(ctx, queue, limit)
	}
	return s.session.List(ctx, queue, limit)
}

func (s *patched) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	if s.head != nil {
		return s.head(ctx, queue, known)
	}
	return s.session.Head(ctx, queue, known)
}

func (s *patched) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	if s.record != nil {
		return s.record(ctx, queue, known)
	}
	return s.session.Record(ctx, queue, known)
}

func (s *patched) SetRecord(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
	if s.setRecord != nil {
		return s.setRecord(ctx, queue, value, known)
	}
	return s.session.SetRecord(ctx, queue, value, known)
}

func (s *patched) Close(ctx context.Context) error {
	if s.close != nil {
		return s.close(ctx)
	}
	return s.session.Close(ctx)
}
