// Package recipes has what all of Baton's recipes share: the waiting queue, the rules
// that admit contenders, and the holds that they get. Package mutex, for one, is the rule
// [Exclusive] on a [Queue] and a handle.
//
// # A contender's way
//
//	          rule admits                       Release
//	join ---------------------------> hold ---------------> leave
//	  |                                ^ |
//	  | rule says whom to watch        | +---> lost: session over, or
//	  v                                |       entry removed by somebody
//	await one of them leaving ---> look again
//	  |
//	  +---> context ended, session over: leave in the background
//
// Whatever happens between two steps, the entry is gone in the end: a join whose
// reply was lost is forgotten, a wait that was given up leaves, and should the
// process die, the entry goes with its session.
//
// # Why looking is safe
//
// Places ahead of a contender can only vanish: new ones come in behind. So a view of the
// queue that is older than the present, but not older than the contender's own entry,
// may still show somebody who has left, and the contender watches him and is told at once; it
// never lacks somebody who is there. See [Rule].
//
// # Entries that change
//
// An entry can be converted in its place to a mode that excludes less: a writer
// to a reader, three permits to two. To whoever watches it, the old entry has
// left, so a conversion wakes those it may admit, and nobody else. A
// semaphore's holders also use it to say that they hold.
//
// # Terms
//
// What all contenders of a queue must agree on, a limit for instance, is in the
// queue's record. Joining is on condition that the record is still the one that
// the contender has read: see [Terms].
//
// # Writing a recipe
//
// A recipe is a [Rule], a mode for its contenders, and a handle around [Hold] with the words its
// users expect. It need not know which service it runs on.
package recipes
