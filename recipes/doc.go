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
