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
// # The words
//
//	entry   what a contender has in the queue at the service
//	turn    an entry on the side of the client: kept and shared turns serve
//	        several callers
//	grant   what one caller has under a turn, with those that re-enter
//	level   the handles of a grant with the same mode
//	Hold    one handle
//
// # The files
//
// A file calls only those below it, with two exceptions: the callers that wait
// for a kept turn when its gate closes join again (kept_gate calls kept_join),
// and while no turn is kept a call goes alone (keeper calls acquire).
//
//	acquire      Acquire: who serves a request
//
//	keeper       WithRetain: the calls of a Queue object that share kept turns
//	kept_join    the entry that such calls join together
//	kept         a turn that serves one call after the other
//	kept_gate    what closes it to later calls, and how it ends
//	sharer       WithSharedTurns: the calls of a Queue object that share turns
//	shared       a turn that serves several calls at the same time
//	shared_gate  what closes it to later calls, and how it ends
//	many         what kept and shared turns have in common
//
//	win          an attempt from the join to its first hold
//	delay        the lock-delay before it, and how a failed attempt leaves
//	try          Try calls that find the name taken
//	count        admission by terms that all contenders share: a semaphore
//	count_watch  what wakes such a contender: the shared watch, the record
//	follow       admission by the places ahead: all others
//	longwait     what a long wait warns of: strays, a hold of one's own
//	deadlock     the deadlocks of which a contender is a part
//	chain        who waits for whom
//	attempt      a contender that is not admitted: it joins, and is woken
//
//	reenter      another handle of the hold that a context carries
//	entry        a holder writes or converts its entry, shows its key, or waits
//	             for certain contenders behind it
//	hold         a handle: its state, its release, work under it
//	context      the contexts of handles, and of work under them
//	warnings     WithHoldWarning and WithMaxHold
//	grant        what one caller has under a turn: its handles
//	wanted       the wait for a contender that a grant keeps out
//	nested       a grant that was taken with the context of another
//
//	turn_watch   the admitted entry while it is held: what watches it
//	turn_pass    its end: how it is passed on to the next contender
//	conversion   the change of its mode
//	turn         its state, and its loss
//
//	head         Follow: the first of a queue
//	record       the record of a queue
//	queue        the name, and what its entries say
//	request      what a recipe asks for
//	note         what the record says for the lock-delay
//	options      the options of recipes
//	rule         rules and terms, which admit contenders
//	info         what a listing shows
//	under        which holds a contender has while it waits
//
// # Locks
//
// They are locked in this order, and none of them while a request is sent or an
// observer called:
//
//	keeper.mu, sharer.mu   the turns of a queue, and the calls that wait for them
//	turn.mu                a turn, and the grants under it
//	the session's and the client's, and those of contexts
//
// Session.Go and Client.Go only start a goroutine, so both are called with
// locks held. What a turn does when its session ends is called without them.
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
