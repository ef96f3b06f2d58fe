// Package recipes is for authors of recipes. It has the wait queue, the rules
// that admit contenders, and the holds of admitted contenders. Package mutex,
// for example, is the rule [Exclusive] on a [Queue], and a handle. The package
// is experimental: a minor version may change it.
//
// # A contender's life
//
//	          rule admits                       Release
//	join ---------------------------> hold ---------------> removed
//	  |                                ^ |
//	  | rule says what to watch        | +---> lost: session over, or
//	  v                                |       entry deleted at the service
//	wait for one of them to leave -> read the queue again
//	  |
//	  +---> context ended, session over: removed in the background
//
// The entry is removed in the end, whichever step fails. See [Rule] for why a
// stale view of the queue is safe.
//
// # The files
//
// A file uses those below it. The exceptions are within a row, and where what
// an option adds hooks into the life of a turn or a hold: keeper, sharer,
// wanted, nested.
//
//	acquire                      Acquire: a request becomes an attempt
//	keeper kept kept_gate        WithRetain: the turns that a process keeps, and
//	                             the callers that wait for them
//	sharer shared                WithSharedTurns: the turns that the readers of a
//	                             process share
//	many                         what both kinds of turns have in common
//	count queuewatch, follow     how an attempt is admitted: by terms, or by the
//	                             places ahead
//	attempt delay try            join -> wait -> lock-delay -> hold
//	strays selfwait deadlock     what a long wait warns of
//	chain                        who waits for whom
//	several                      one hold made of several
//	entry hold context           what a caller has: handles, contexts, re-entry
//	wanted nested                a hold that others wait for; one in another
//	grant warnings               the handles of a caller, and how long it holds
//	turn conversion              the admitted entry: its loss, its mode, and how
//	                             it is passed on
//	head record                  the first of the queue, and the queue's record
//	queue request note options
//	terms rule info under pause  what all of them know
//
// # Conversion
//
// An entry can be converted in place to a mode that excludes less: a writer to
// a reader, three permits to two. For the contenders that watch it the old
// entry has left, so a conversion wakes those that it may admit. A semaphore
// also converts the entries of holders, to show that they hold.
//
// # Writing a recipe
//
// A recipe is a [Rule], a mode for its contenders, and a handle around [Hold]
// in its users' terms. It does not depend on the service.
package recipes
