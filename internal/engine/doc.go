// Package engine keeps a session alive, counts its deadline, repeats requests
// while the service is unavailable, cleans up in the background, and notifies
// observers. Package coordinator exports the part for users; recipes reach the
// rest with [Of].
//
//	client.go      opens a session when one is needed, and closes it
//	session.go     the session's life, its deadline and its end
//	renewal.go     renews the session
//	closing.go     ends the session at the service
//	holds.go       calls holds when they have settled, and when the session ends
//	outer.go       the holds that a context carries
//	ends.go        calls functions before the entry of a hold leaves
//	checks.go      checks of the clocks, and whether the service answers
//	request.go     one request: its attempts, its bounds, its outcome
//	join.go        joins a queue
//	read.go        reads a queue or its record, and waits for a change
//	change.go      changes an entry or a record
//	leave.go       removes an entry, at once or in the background
//	queuewatch.go  one watch of a queue for all of a session's waiters
//	wanted.go      waits for a contender behind an entry
//	operator.go    answers sequencer checks and operators
//	fallback.go    replaces a capability that a driver lacks
//
// Methods of a Session return bare errors, or an [Error] if the service may
// have applied a change. [Describe] adds the user's operation and name.
package engine
