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
	convertFunc   = func(ctx context.Context, line driver.Line, own driver.Joined, mode string, value []byte) (driver.Place, error)
	followFunc    = func(ctx context.Context, line driver.Line, own, ahead driver.Place) (bool, error)
	writeFunc     = func(ctx context.Context, line driver.Line, own driver.Place, value []byte) error
	headFunc      = func(ctx context.Context, line driver.Line, known driver.Version) (driver.Head, error)
	recordFunc    = func(ctx context.Context, line driver.Line, known driver.Version) (driver.Record, error)
	setRecordFunc = func(ctx context.Context, line driver.Line, value []byte, known driver.Version) (driver.Version, error)
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
	join       func(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error)
	ahead      func(ctx context.Context, line driver.Line, own driver.Place) (driver.View, error)
	watch      func(ctx context.Context, line driver.Line, places []driver.Place) error
	follow     followFunc
	watchQueue func(ctx context.Context, line driver.Line, show func([]driver.Place) bool) error
	leave      func(ctx context.Context, line driver.Line, own driver.Place) error
	pass       func(ctx context.Context, line driver.Line, own driver.Place) error
	forget     func(ctx context.Context, line driver.Line, id string) error
	check      func(ctx context.Context, line driver.Line, key string, token driver.Token) error
	remove     func(ctx context.Context, line driver.Line, key string, token driver.Token) error
	lines      func(ctx context.Context) ([]driver.Line, error)
	list       func(ctx context.Context, line driver.Line, limit int) ([]driver.Entry, error)
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

func (s *patched) Join(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
	if s.join != nil {
		return s.join(ctx, line, c)
	}
	return s.session.Join(ctx, line, c)
}

func (s *patched) Ahead(ctx context.Context, line driver.Line, own driver.Place) (driver.View, error) {
	if s.ahead != nil {
		return s.ahead(ctx, line, own)
	}
	return s.session.Ahead(ctx, line, own)
}

func (s *patched) Watch(ctx context.Context, line driver.Line, places ...driver.Place) error {
	if s.watch != nil {
		return s.watch(ctx, line, places)
	}
	return s.session.Watch(ctx, line, places...)
}

func (s *patched) Follow(ctx context.Context, line driver.Line, own, ahead driver.Place) (bool, error) {
	if s.follow != nil {
		return s.follow(ctx, line, own, ahead)
	}
	return s.session.Follow(ctx, line, own, ahead)
}

func (s *patched) WatchQueue(ctx context.Context, line driver.Line, show func([]driver.Place) bool) error {
	if s.watchQueue != nil {
		return s.watchQueue(ctx, line, show)
	}
	return s.session.WatchQueue(ctx, line, show)
}

func (s *patched) Convert(ctx context.Context, line driver.Line, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if s.convert != nil {
		return s.convert(ctx, line, own, mode, value)
	}
	return s.session.Convert(ctx, line, own, mode, value)
}

func (s *patched) Write(ctx context.Context, line driver.Line, own driver.Place, value []byte) error {
	if s.write != nil {
		return s.write(ctx, line, own, value)
	}
	return s.session.Write(ctx, line, own, value)
}

func (s *patched) Leave(ctx context.Context, line driver.Line, own driver.Place) error {
	if s.leave != nil {
		return s.leave(ctx, line, own)
	}
	return s.session.Leave(ctx, line, own)
}

func (s *patched) Pass(ctx context.Context, line driver.Line, own driver.Place) error {
	if s.pass != nil {
		return s.pass(ctx, line, own)
	}
	return s.session.Pass(ctx, line, own)
}

func (s *patched) Forget(ctx context.Context, line driver.Line, id string) error {
	if s.forget != nil {
		return s.forget(ctx, line, id)
	}
	return s.session.Forget(ctx, line, id)
}

func (s *patched) Check(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if s.check != nil {
		return s.check(ctx, line, key, token)
	}
	return s.session.Check(ctx, line, key, token)
}

func (s *patched) Remove(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if s.remove != nil {
		return s.remove(ctx, line, key, token)
	}
	return s.session.Remove(ctx, line, key, token)
}

func (s *patched) Lines(ctx context.Context) ([]driver.Line, error) {
	if s.lines != nil {
		return s.lines(ctx)
	}
	return s.session.Lines(ctx)
}

func (s *patched) List(ctx context.Context, line driver.Line, limit int) ([]driver.Entry, error) {
	if s.list != nil {
		return s.list(ctx, line, limit)
	}
	return s.session.List(ctx, line, limit)
}

func (s *patched) Head(ctx context.Context, line driver.Line, known driver.Version) (driver.Head, error) {
	if s.head != nil {
		return s.head(ctx, line, known)
	}
	return s.session.Head(ctx, line, known)
}

func (s *patched) Record(ctx context.Context, line driver.Line, known driver.Version) (driver.Record, error) {
	if s.record != nil {
		return s.record(ctx, line, known)
	}
	return s.session.Record(ctx, line, known)
}

func (s *patched) SetRecord(ctx context.Context, line driver.Line, value []byte, known driver.Version) (driver.Version, error) {
	if s.setRecord != nil {
		return s.setRecord(ctx, line, value, known)
	}
	return s.session.SetRecord(ctx, line, value, known)
}

func (s *patched) Close(ctx context.Context) error {
	if s.close != nil {
		return s.close(ctx)
	}
	return s.session.Close(ctx)
}
