// Package simulation tests Baton's recipes in worlds that it makes up: one seed
// is one world, which has a service in memory, a few clients, and whatever can
// go wrong between them, in virtual time. It is a test and nothing else.
//
//	go test ./recipes/internal/simulation     # a few hundred seeds, the same in each run
//	BATON_SEEDS=100000 go test …              # so many, counted from the base seed
//	BATON_SIM_TIME=10m go test -timeout 0 …   # as many as there is time for, from a random base
//	BATON_SEED=4711 go test -v …              # one, with all that happened in it
//
// A seed that fails prints the command that replays it. So that this is known
// also of a run that ends in the middle of one, by a panic or a signal, the
// command of the present seed is in a file, whose name is printed in the
// beginning, and which stays if the run fails.
//
// # A world
//
// The seed chooses the recipes and their names, the clients, what each
// goroutine of theirs does, how long every request and every reply takes, and
// which of them are lost, late or refused. It also chooses what an operator and
// the network do: expire sessions, delete entries, add foreign ones, cut links
// for less and for more than the TTL, in one direction or both, reset them,
// deliver late what was sent before, stop the service. A process that is
// stopped is not among that: its goroutines cannot be stopped here. A client
// that is cut off comes nearest to it, and so does one that crashes, whose
// links are cut for good.
//
// In some worlds views are of the past, and in some the service leaves unsaid
// what it may (memory.WithFewHints).
//
// After a while all of that is mended. From then on everybody has to be served
// in bounded time, and in the end nothing may be left.
//
// # The judge
//
// What is right is told by the service, which reports each step in the middle
// of it (memory.Service.OnStep), and by a second implementation of the
// admission rules, which shares no code with the recipes:
//
//   - a holder is queued, in the same session, and admitted by the rule, and
//     its context ends before its entry leaves or is converted;
//   - no two live holds exclude each other, nor exceed the limit;
//   - tokens rise;
//   - nobody is admitted on a session that has ended;
//   - every call returns soon after its context or session ended, and what its
//     error says has happened;
//   - a call that is not to wait sends no request that waits;
//   - a release that returned nil has removed the entry, a repeated one
//     nothing;
//   - the numbers of permits are nobody else's, and observers of an election
//     never go back and see each last change;
//   - a client that was closed without an error has left nothing;
//   - after mending, everybody is admitted and can release, and then no entry,
//     watch, session or goroutine is left.
//
// What an operator does by hand cannot be known before: a hold whose entry he
// deleted or whose session he expired is condemned. It is judged only by how
// soon it is told.
//
// # Replay
//
// Each goroutine has its own generator, and requests draw from a sequence of
// their own that is named after who sends it. All delays are of random
// nanoseconds, so that no two events share an instant and the scheduler has
// nothing to decide.
package simulation
