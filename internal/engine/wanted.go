package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Wanted waits until wants accepts a contender behind own, or another client
// asks own to release; see [driver.QueueWatcher] and [driver.Revoker]. It calls
// wants with the places behind own. The error is ErrRemoved if own has left the
// queue. A session that cannot watch a queue reads it once a second.
func (s *Session) Wanted(
	ctx context.Context, queue driver.Queue, own driver.Place, wants func(driver.Place) bool,
) error {
	return s.wait(ctx, "await", queue, func(ctx context.Context) error {
		if s.can.Revoker == nil {
			return s.awaitBehind(ctx, queue, own, wants)
		}
		either, cancel := context.WithCancel(ctx)
		defer cancel()
		asked := make(chan error, 1)
		go func() { // waited for below
			err := s.can.Revoker.Revoked(either, queue, own)
			if !errors.Is(err, ErrInvalid) { // no client can ask in this queue
				cancel()
			}
			asked <- err
		}()
		err := s.awaitBehind(either, queue, own, wants)
		ended := either.Err() != nil // by ctx, or by the other wait
		cancel()
		if other := <-asked; err != nil && ended && !errors.Is(other, ErrInvalid) {
			return other
		}
		return err
	})
}

// awaitBehind waits until wants accepts a contender behind own.
func (s *Session) awaitBehind(
	ctx context.Context, queue driver.Queue, own driver.Place, wants func(driver.Place) bool,
) error {
	queued := false
	err := s.watchQueue(ctx, queue, func(places []driver.Place) bool {
		var wanted bool
		queued, wanted = behind(places, own, wants)
		return queued && !wanted
	})
	if err == nil && !queued {
		err = driver.ErrGone
	}
	return err
}

// Behind is Wanted by one read of the queue: it reports whether wants accepts a
// contender behind own now.
func (s *Session) Behind(
	ctx context.Context, queue driver.Queue, own driver.Place, wants func(driver.Place) bool,
) (bool, error) {
	view, err := s.Ahead(ctx, queue, driver.Place{})
	if err != nil {
		return false, err
	}
	queued, wanted := behind(view.Ahead, own, wants)
	if !queued {
		return false, ErrRemoved
	}
	return wanted, nil
}

// behind reports whether own is in the queue, and whether wants accepts one of
// those behind it.
func behind(
	places []driver.Place, own driver.Place, wants func(driver.Place) bool,
) (queued, wanted bool) {
	for _, p := range places {
		switch {
		case p.Key == own.Key:
			queued = true
		case queued && wants(p):
			wanted = true
		}
	}
	return queued, wanted
}

// watchQueue is WatchQueue of the driver, or reads the queue every
// QueueInterval.
func (s *Session) watchQueue(
	ctx context.Context, queue driver.Queue, show func([]driver.Place) bool,
) error {
	if s.can.QueueWatcher != nil {
		return s.can.QueueWatcher.WatchQueue(ctx, queue, show)
	}
	for {
		view, err := s.driver.Ahead(ctx, queue, driver.Place{})
		if err != nil || !show(view.Ahead) {
			return err
		}
		select {
		case <-time.After(QueueInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// QueueInterval is how often a session without a QueueWatcher reads the queue
// of a hold whose user waits until it is wanted.
const QueueInterval = time.Second
