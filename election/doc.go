// Package election elects one leader among processes.
//
//	e, err := election.New(client, "scheduler")
//	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
//		return schedule(ctx, t.Token()) // ctx ends with the term, and with Run's ctx
//	})
//
// # Guaranteed
//
// Candidates lead in the order in which they joined, but for transfers, with
// rising tokens. No two live sessions lead at once: the context of a lost term
// ends before another candidate can lead. After a resignation the next one
// leads at once; after a death, after the TTL, up to 0.5 s (etcd) or a tick,
// and a lock-delay.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another leads by then: pass [Term.Token] to the resource,
// which refuses smaller tokens than it has seen. If an operator removes the
// leader's entry or session, another may lead just before the old leader's
// context ends; and while work runs that ignores it: see [WithDrain].
package election
