// Package engine is what the recipes stand on: it keeps a session alive, counts
// its deadline, repeats requests while the service is away, cleans up in the
// background, and notifies observers. Package coordinator shows users the part
// of it that they need; recipes reach the rest by [Of].
//
//	client.go      opens a session when one is needed, and closes it
//	session.go     the session's life, its deadline and its renewal
//	asleep.go      what happens when the machine was suspended
//	request.go     one request: its attempts, its bounds, its outcome
//	join.go        joins a queue
//	read.go        reads a queue or its record, and waits for a change
//	change.go      changes an entry or a record
//	leave.go       removes an entry, at once or in the background
//	queuewatch.go  one watch of a queue for all of a session's waiters
//	operator.go    answers sequencer checks and operators
//	fallback.go    what stands in for a capability that a driver lacks
//
// Methods of a Session return bare errors, or an [Error] when the service may
// have changed; [Describe] names the operation and the name that a user knows.
package engine
