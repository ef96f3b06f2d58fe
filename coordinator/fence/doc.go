// Package fence is for resources that must not be touched by somebody who had a lock.
//
// A process that was stopped for longer than its TTL does not know, when it
// goes on, that its lock has passed to somebody else. What it had begun to send
// goes out. Nobody but the resource can refuse that:
//
//	holder 1  ──lock, token 5──►│ ▒▒▒▒ stopped ▒▒▒▒▒▒▒▒▒▒▒▒│──write, token 5──► refused: 5 < 7
//	holder 2                        ──lock, token 7──write, token 7──►
//
// # Sequencers
//
// A [Sequencer] is a token that says whose it is: the service and namespace,
// the kind and name of the lock, the token, and the entry at the service that
// stands for the grant. The holder makes it,
//
//	seq, err := lock.Sequencer(ctx)
//
// and shows it with each access, reads included: as a value, as text in a
// message, with [With] in a context for packages httpfence and grpcfence.
// Whoever gets it can look at it in three ways:
//
//	at the resource   Gate, package sqlfence: refuses a token if a greater one was here before. No request to the service.
//	in the service    etcd.Guard, zookeeper.Guard: a condition of the user's own transaction in the service that has the lock.
//	                  The write happens while the grant holds, or never.
//	by asking         coordinator.Client.Check: does the grant hold? One read. True when it was asked, not when the answer is used.
//
// The first two let no late write happen. Asking alone leaves a gap between the
// answer and what is done with it, and is for what has no memory of its own, or
// can stand a late access now and then.
//
// # What is needed for it to be safe
//
// Every access shows its sequencer, reads too: with writes alone, a late one
// can fall between the next holder's read and its write. The check and the
// access are one step: in [Gate.Do], in one SQL transaction, in one transaction
// of the service. A resource goes by the tokens of one lock, and the gate
// remembers which.
//
// # What it does not do
//
// A sequencer is no secret and no credential. Anybody can write one; it protects against accidents.
//
// Tokens order the holders of what excludes all others: mutex, write lock,
// leadership. Readers and the holders of permits have tokens, too, but several
// of them hold at once, and a gate that has seen one of them refuses all that
// came before it. For those use Guard or Check.
//
// Tokens rise for as long as the service keeps its data. A service that was
// restored from an older backup has its old identity, and may give out tokens
// that resources have seen: they refuse those until they have risen. Delete the
// record of the identity then (on etcd the key
// <namespace>/./baton/service+record, on ZooKeeper the node
// <chroot>/baton/service+record) before the first client starts: there is a new
// identity, resources refuse it as foreign, and are told one by one to begin
// anew. On etcd restore with --bump-revision instead.
//
// This package depends on nothing but the standard library and package driver.
package fence
