package engine

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// withFallbacks returns the capabilities of a session, with fallbacks on the
// core for missing ones, except Converter, QueueWatcher and Revoker, which stay
// nil.
func withFallbacks(s driver.Session) driver.Capabilities {
	c, f := s.Capabilities(), fallback{s}
	if c.Handoff == nil {
		c.Handoff, c.OwnWatched = f, false
	}
	if c.Writer == nil {
		c.Writer = f
	}
	if c.HeadWatcher == nil {
		c.HeadWatcher = f
	}
	if c.Operator == nil {
		c.Operator = f
	}
	return c
}

// fallback implements optional operations with the core, or refuses them.
type fallback struct{ driver.Session }

// HeadInterval is how often a session without a HeadWatcher reads the head, to
// notice a changed value or the first join.
const HeadInterval = time.Second

func (f fallback) Follow(
	ctx context.Context, queue driver.Queue, _, ahead driver.Place,
) (bool, error) {
	return false, f.Watch(ctx, queue, ahead)
}

func (f fallback) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return f.Leave(ctx, queue, own)
}

func (f fallback) Write(context.Context, driver.Queue, driver.Place, []byte) error {
	return Invalid("the value of an entry cannot be changed on this service")
}

func (f fallback) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	for {
		entries, err := f.List(ctx, queue, 1)
		if err != nil {
			return driver.Head{}, err
		}
		var h driver.Head
		if len(entries) > 0 {
			h = driver.Head{Entry: entries[0], Version: versionOf(entries[0])}
		}
		if h.Version != known {
			return h, nil
		}
		if err := f.pause(ctx, queue, entries); err != nil {
			return driver.Head{}, err
		}
	}
}

// pause waits for HeadInterval, or until the first of the entries has left.
func (f fallback) pause(ctx context.Context, queue driver.Queue, entries []driver.Entry) error {
	bound, cancel := context.WithTimeout(ctx, HeadInterval)
	defer cancel()
	if len(entries) == 0 {
		<-bound.Done()
		return ctx.Err()
	}
	if err := f.Watch(bound, queue, entries[0].Place); err != nil && bound.Err() == nil {
		return err
	}
	return ctx.Err()
}

// versionOf returns a version of an entry's state, the same for all sessions.
func versionOf(e driver.Entry) driver.Version {
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.Token.String() + "/" + e.Key + "/"))
	_, _ = h.Write(e.Value)
	return driver.Version(h.Sum64()>>1 | 1) // neither zero nor Any
}

func (f fallback) Check(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	entries, err := f.List(ctx, queue, 0)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Key == key && e.Token == token {
			return nil
		}
	}
	return driver.ErrGone
}

func (f fallback) Remove(context.Context, driver.Queue, string, driver.Token) error {
	return Invalid("the entry of another session cannot be removed on this service")
}

func (f fallback) Queues(context.Context) ([]driver.Queue, error) {
	return nil, Invalid("queues cannot be listed on this service")
}
