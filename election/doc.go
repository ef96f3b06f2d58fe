// Package election elects one leader among processes.
//
//	e, err := election.New(client, "scheduler")
//	...
//	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
//		return schedule(ctx, t.Token()) // ctx ends with the term, and with Run's ctx
//	})
//
// [Election.Run] is the whole life of a candidate. [Election.Campaign] is one
// term, for those who want to drive it themselves; [Election.Leader] and
// [Election.Observe] are for those who only follow.
//
// # Guaranteed
//
// Candidates are elected in the order in which the service heard of them. Terms
// are totally ordered and their tokens rise. At no moment do two live
// sessions lead, and the context of a term ends before the service can give the
// name to anyone else. A leader that dies is succeeded when its session's TTL
// has run out, one that resigns at once: a planned hand-over has no overlap and
// no gap but two round trips. Observers see the last of all changes, over lost
// sessions and restarts of the service.
//
// # Not guaranteed
//
// A process that was stopped, by SIGSTOP or a suspended machine, may go on with
// a write that it had begun although another one leads by now. Hand
// [Term.Token] to the resource, and have it refuse smaller tokens than the
// greatest it has seen; in the process, look at [Term.Err] before each step
// that matters.
//
// Work that does not return when its context ends cannot be stopped, and may
// overlap with that of the next leader. [WithDrain] says from when on, and
// [WithOnOverrun] tells. The token tells the two apart.
//
// What Leader, Observe and Candidates show was true when the service showed it.
// Never act as leader upon it; only a [Term] says that the caller leads.
//
// # Life of a candidate that runs
//
//	   +------------------------- pause <------------------------+
//	   v                                                         |
//	campaign ---> work runs ---> term lost: drain ---------------+
//	                 |  |                                        |
//	                 |  +------> ErrStepDown: resign ------------+
//	                 |
//	                 +---------> work is done, or failed: resign ---> return
//	                 +---------> ctx ended: drain, resign ----------> return
//
// # Cost
//
// Campaigning is one request if nobody leads, and two or three if somebody
// does; and a read of the queue if the one ahead goes without resigning. A
// candidate that waits for longer than a second watches its own entry, too, and
// so does a term that lasts for longer than 250 ms. Resigning and proclaiming
// are one request each. A change of the leader wakes one candidate and every
// observer.
package election
