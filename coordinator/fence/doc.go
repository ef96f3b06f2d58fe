// Package fence protects a resource from a process that has lost its lock.
//
// A process that was paused for longer than its TTL does not know, when it goes
// on, that another one has the lock. It sends the write that it had begun. Only
// the resource can refuse that:
//
//	holder 1  ──lock, token 5──►│ ▒▒ paused ▒▒▒▒▒▒▒▒▒▒│──write, token 5──► refused: 5 < 7
//	holder 2                        ──lock, token 7──write, token 7──►
//
// # Sequencers
//
// A [Sequencer] is a token and its scope: the service and namespace, the kind
// and name of the lock, the token, and the entry of the grant at the service.
// The holder makes it,
//
//	seq, err := lock.Sequencer(ctx)
//
// and shows it with each access: as a value, as text in a message, with [With]
// in a context for packages httpfence and grpcfence. There are three ways to
// check it:
//
//	at the resource   Gate, package sqlfence: refuses a token if a greater one was
//	                  shown before. No request to the service.
//	in the service    etcd.Guard, zookeeper.Guard: a condition of the user's own
//	                  transaction in the service that has the lock. The write
//	                  happens while the grant holds, or never.
//	by asking         coordinator.Client.Check: does the grant hold? One read, and a
//	                  gap between the answer and its use.
//
// # What is needed for it to be safe
//
// Every access shows its sequencer, reads too: if only writes did, a late one
// could fall between the next holder's read and its write. The check and the
// access are one step: in [Gate.Do], in one SQL transaction, in one transaction
// of the service. A resource accepts the tokens of one lock, and the gate
// remembers which.
//
// # What it does not do
//
// A sequencer is neither secret nor a credential: it protects against
// accidents.
//
// Tokens order the holders of a mutex, a write lock or a leadership, which
// exclude all others. Readers and the holders of permits have tokens too, but
// several of them hold at once, and a gate that has seen one of them refuses
// those that were granted before it. For those use Guard or Check.
//
// Tokens rise for as long as the service keeps its data. docs/fencing.md says
// what to do when a service was restored from an older backup.
package fence
