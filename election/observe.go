package election

import (
	"context"
	"iter"
)

// Observe yields who leads: first as it is now, then each change, be it another
// leader, another value (see Term.Proclaim) or nobody, which is the zero
// Leader. It runs in the caller's goroutine and starts none; to stop, leave the
// loop or end ctx.
//
//	for leader, err := range e.Observe(ctx) {
//		if err != nil {
//			return err
//		}
//		route(leader)
//	}
//
// Changes come in order: tokens never fall. After a lost session an older value
// of the same leader may be shown once more. While the loop's body runs nobody
// listens, so of several changes in a row all but the last may be left out; the
// last is never missed. "Nobody" is seldom seen between two leaders, as a
// hand-over is one step at the service.
//
// It outlives lost sessions, restarts of the service and compaction. While the
// service is away it waits, and shows what it finds afterwards. The errors that
// it does not outlive are yielded once, as the last: the cause of ctx, with
// coordinator.ErrUnavailable if the service was away, ErrRefused, ErrClosed.
//
// An observer watches one entry, whatever the number of candidates and of other
// observers. What it shows is no more certain than what Leader does.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		follower := e.queue.Follow()
		for {
			first, ok, err := follower.Next(ctx)
			if err != nil {
				yield(Leader{}, err)
				return
			}
			var l Leader
			if ok {
				l = leader(first)
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}
