package recipes

import "context"

// PauseAgain waits before a step is repeated that has failed n times, one after
// the other: after a write for which [Overtaken] holds, or a lost session. It
// waits for a random time: up to 5 ms for the first, and up to 1.28 s after the
// ninth. If ctx ends first, it returns the cause.
//
// Without it, writers that compete would fail together again, and a service
// that fails at once would get as many requests as it can answer.
func PauseAgain(ctx context.Context, q *Queue, n int) error { return q.client.PauseAgain(ctx, n) }
