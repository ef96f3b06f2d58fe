// Package coordinator connects a process to a coordination service: etcd,
// ZooKeeper, or one in memory for tests.
//
//	client, err := coordinator.Open("etcd://10.0.0.1:2379,10.0.0.2:2379/orders?ttl=10s")
//	if err != nil {
//		return err
//	}
//	defer client.Close(context.Background())
//	m, err := mutex.New(client, "nightly-report")
//
// A [Client] keeps one [Session] at the service alive. A hold is a lock, permit
// or term that this client has. When the session is lost, so are all holds of
// the client. The next call opens a new session.
//
// # What is guaranteed
//
// During an outage of the service, a client keeps its holds until
// [Session.Deadline]. Then their contexts end, before the service can grant the
// names to anyone else.
//
// # What is not guaranteed
//
// A stopped process or a sleeping machine cannot watch its clock. After the
// pause, a write that was under way still arrives at the resource, although
// someone else may hold the lock by then. Send the fencing token with every
// access. Under a mutex, a write lock or a term, let the resource refuse every
// token smaller than the greatest it has seen. Permits and read locks have no
// such order: see package fence. If an operator removes an entry or ends a
// session, another contender may hold the name just before the holder's context
// ends.
//
// # Errors
//
// Test errors with [errors.Is]; the usual ones are [ErrTaken], [ErrUnavailable]
// and [ErrSessionLost]. If ctx ends while the call is queued, the call returns
// context.Cause(ctx).
package coordinator
