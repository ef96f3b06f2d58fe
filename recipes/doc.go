// Package recipes has what all of Baton's recipes share: the waiting queue, the
// rules that admit contenders, and the holds that they get. Package mutex, for
// one, is the rule [Exclusive] on a [Queue] and a handle.
//
// # A contender's life
//
//	          rule admits                       Release
//	join ---------------------------> hold ---------------> removed
//	  |                                ^ |
//	  | rule says what to watch        | +---> lost: session over, or
//	  v                                |       entry deleted by somebody
//	wait for one of them to leave -> read the queue again
//	  |
//	  +---> context ended, session over: removed in the background
//
// Whatever happens between two steps, the entry is gone in the end. attempt.go
// has the steps up to the hold, hold.go and grant.go those after it. Why
// reading a view of the queue is safe: see [Rule].
//
// # Entries that change
//
// An entry can be converted in place to a mode that excludes less: a writer to
// a reader, three permits to two. To contenders that watch it, the old entry
// has left, so a conversion wakes those it may admit. The holders of a
// semaphore also use it to say that they hold.
//
// # Writing a recipe
//
// A recipe is a [Rule], a mode for its contenders, and a handle around [Hold]
// with the words its users expect. It need not know which service it runs on.
package recipes
