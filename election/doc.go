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
// rising tokens. No two live sessions lead at the same time: the context of a
// lost term ends before another candidate can lead. The next one leads at once
// after a resignation; if the leader dies, after the TTL, up to 0.5 s on etcd
// or a tick (2 s) on ZooKeeper, and a lock-delay.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another leads by then: pass [Term.Token] to the resource,
// which refuses smaller tokens than it has seen. If an operator removes the
// leader's entry or ends its session, another may lead just before the old
// leader's context ends. So it may if work ignores the end of its context: see
// [WithDrain].
package election
