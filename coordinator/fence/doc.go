// Package fence protects a resource from a process that has lost its lock.
//
// A process that was paused for longer than its TTL resumes the write that it
// had begun, although another process has the lock. Only the resource can
// refuse that write:
//
//	holder 1  ──lock, token 5──►│ ▒▒ paused ▒▒▒▒▒▒▒▒▒▒│──write, token 5──► refused: 5 < 7
//	holder 2                        ──lock, token 7──write, token 7──►
//
// # Sequencers
//
// A [Sequencer] is a token with its scope: the service and namespace, and the
// kind and name of the lock. The holder makes it,
//
//	seq, err := lock.Sequencer(ctx)
//
// and shows it with each access: as a value, as text in a message, or in a
// context by [With], for packages httpfence and grpcfence. There are three ways
// to check it:
//
//	at the resource   Gate, package sqlfence: refuses a token smaller than the
//	                  greatest shown before. No request to the service.
//	in the service    etcd.Guard, zookeeper.Guard: a condition in your own
//	                  transaction in the service that has the lock.
//	by a request      coordinator.Client.Check: asks whether the grant holds. It
//	                  may end between the answer and the access.
//
// # What makes it safe
//
// Show the sequencer with every access, reads too: else a late write can fall
// between the next holder's read and its write. Check and access in one step:
// in [Gate.Do], in one SQL transaction, or in one transaction of the service.
//
// # What it does not do
//
// A sequencer is not a credential: it protects against accidents only.
//
// Tokens order exclusive holders: of a mutex, a write lock, a leadership. Read
// locks and permits have tokens too, but several are held at once, and a gate
// refuses all but the newest of them. Use Guard or Check for them.
//
// Tokens rise as long as the service keeps its data. docs/fencing.md says what
// to do after a restore from an older backup.
package fence
