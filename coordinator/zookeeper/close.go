package zookeeper

import (
	"context"
	"time"
)

// farewell is how much longer than its context a Close may wait for what is local
// only. It is a matter of microseconds, on a busy machine of milliseconds.
const farewell = 250 * time.Millisecond

// retire ends the Conn and waits for all that runs for the session. It is not bounded by a
// context since it does not depend on the service: link.retire fails all I/O.
func (s *session) retire() {
	o := s.own
	<-o.started
	o.link.retire()
	// Close on a Conn in full flight would wait a second for a reply that cannot come. One
	// at rest it ends at once.
	<-o.link.idle
	s.conn.Close()
	for range o.events { // until closed
	}
	s.running.Wait()
	close(o.retired)
}

// awaitRetired waits for retire, by ctx.
func (s *session) awaitRetired(ctx context.Context) {
	select {
	case <-s.own.retired:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-s.own.retired:
	case <-timer.C:
	}
}

// Close ends the session: first everything in this process, then the session at the
// service, over a connection of its own. In this order nothing comes in between: the
// Conn cannot take the session back, and what its last connection still carries is
// refused by the service, since the session has moved, and ended.
func (s *session) Close(ctx context.Context) error {
	s.finish(errClosed, false)
	s.awaitRetired(ctx)
	select {
	case <-s.done:
		return nil // the service has said so
	default:
	}
	session, _ := s.own.link.sessions()
	if err := s.own.link.end(ctx, session); err != nil {
		return err
	}
	s.finish(errClosed, true)
	return nil
}
