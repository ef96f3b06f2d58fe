// Package engine is what the recipes stand on: it keeps a session alive, counts
// its deadline, repeats requests while the service is away, cleans up in the
// background, and notifies observers. Package coordinator shows users the part of
// it that they need; recipes reach the rest by [Of].
//
//	client.go            opens a session when one is needed, and closes it
//	session.go           the session's life, its deadline and its renewal
//	asleep.go            what happens when the machine was suspended
//	queue.go, entry.go    what recipes ask of a session: join, wait, leave, convert
//	fallback.go          what stands in for a capability that a driver lacks
//	queuewatch.go        one watch of a queue for all of a session's waiters
//	request.go           one request: its attempts, its bounds, its error
//	cleanup.go           removes entries of attempts that failed
package engine
