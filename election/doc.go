// Package election elects one leader among processes.
//
//	e, err := election.New(client, "scheduler")
//	...
//	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
//		return schedule(ctx, t.Token()) // ctx ends with the term, and with Run's ctx
//	})
//
// # Guaranteed
//
// Candidates lead in the order in which the service received their requests.
// The token rises with each term. No two live sessions lead at the same time:
// the context of a term ends before the service can elect another leader. A
// leader that resigns is succeeded at once, one that dies after its TTL.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another process leads by then. Pass [Term.Token] to the
// resource, and let it refuse tokens smaller than the greatest it has seen. In
// the process, check [Term.Err] before each step that matters.
//
// Work that ignores the end of its context may overlap with that of the next
// leader: see [WithDrain].
package election
