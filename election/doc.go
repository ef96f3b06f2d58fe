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
// Candidates lead in the order in which the service received them. The token
// rises with each term. No two live sessions lead at the same time: the context
// of a lost term ends before another candidate can lead. When a leader resigns,
// the next candidate leads at once. When one dies, the next leads after the
// TTL, plus up to 0.5 s on etcd or one tick (2 s by default) on ZooKeeper, and
// a lock-delay.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another leads by then. Pass [Term.Token] to the resource, and
// let it refuse every token smaller than the greatest it has seen. If an
// operator removes the leader's entry or ends its session, another may lead
// just before the old leader's context ends. Work that ignores the end of its
// context may overlap with the next leader's: see [WithDrain].
package election
