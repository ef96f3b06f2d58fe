// Package simulation tests Baton's recipes in random worlds. A seed determines
// a world: a service, a few clients, and all faults between them, in virtual
// time. The tests in integration/simulation run worlds on each [Kind] of
// service; in the directory integration:
//
//	go test ./simulation                      # 200 seeds of each service, the same in each run
//	BATON_SEEDS=100000 go test …              # so many, counted from the base seed
//	BATON_SIM_TIME=10m go test -timeout 0 …   # for ten minutes, from a random base
//	BATON_SIM_PART=1/2 go test …              # every second seed: another process runs 2/2
//	BATON_SEED=4711 go test -v …              # one seed, with a log of all steps
//
// A seed that fails prints the command that replays it. Then the run looks for
// a smaller world that fails in the same way, and prints its command:
//
//	BATON_SEED=4711 BATON_SIM_WITHOUT='c0,c1.2,reply lost' BATON_SIM_UNTIL=9s go test -v …
//
// is the world of that seed without client c0, actor c1.2 and lost replies, in
// which faults end after nine seconds.
//
// A run also writes the command of its current seed to a file, and prints the
// file's name at the start, in case a panic or a signal ends the run. The file
// stays if the run fails.
//
// # A world
//
// The seed determines the recipes and their names, the clients, what each of
// their goroutines does, the delay of each request and reply, and which of them
// are lost, late or refused. It also determines what an operator and the
// network do: expire sessions, delete entries, add foreign ones, cut links for
// less or more than the TTL, in one direction or both, reset them, deliver late
// what was sent before, stop the service. A process cannot be stopped here; a
// client that is cut off, or that crashes, with its links cut for good, comes
// nearest to it. Half of the faults hit a client that holds something; some
// holds outlive several faults. On etcd and ZooKeeper a client may reach one
// member only, and in half of the worlds members have host names and move to
// other addresses; on etcd a name may have a dead address first, and
// authentication may be switched on.
//
// Most worlds have a random half of the kinds of faults and operations: with
// all of them, those that end waits and holds hide the states that take long to
// reach. In some worlds of the service in memory views are stale, and in some
// it omits the optional hints (memory.WithFewHints).
//
// After a while all faults end. From then on every contender has to be served
// in bounded time, and in the end nothing may be left.
//
// # The judge
//
// The service reports each step while it happens (Service.OnStep). A
// second implementation of the admission rules, which shares no code with the
// recipes, judges it:
//
//   - a holder is queued, in the same session, and admitted by the rule;
//   - every context that it got, of the handle, of the work of Do and Run, and
//     those derived from them, has ended when the client sends the removal or
//     the conversion of its entry, or closes its session;
//   - no two live holds exclude each other, nor exceed the limit;
//   - tokens rise;
//   - a token is granted again only by a client that keeps its turns
//     (WithRetain), when the hold before has ended; and after the faults such
//     a turn is passed on as soon as another contender waits, or, if callers of
//     the client wait, in the bounded time that they have;
//   - readers of one client that share an entry (WithSharedReads) count as one
//     hold: its entry leaves when the last context of them has ended, and soon
//     after; none of them is granted while the session is suspended, or if it
//     came after its client had seen a writer behind the entry: one of its own
//     at the call, one of another client, after the faults, in bounded time;
//   - a turn that is granted after the loss of another is granted a lock-delay
//     later, and no contender waits for longer than that after the faults;
//   - the context of a hold ends after its longest time, and not before, and
//     the hold stays until its release;
//   - no contender is admitted on a session that has ended;
//   - every call returns soon after its context or session ended, and its error
//     is true;
//   - a Try call sends no request that waits;
//   - a release that returned nil has removed the entry, and a repeated one
//     nothing;
//   - the slots of permits are unique, and observers of an election never go
//     back and see each last change;
//   - a client that was closed without an error has left nothing;
//   - in a long outage a client begins few connections in a second, and none to
//     an address that its name has not had for long;
//   - when the faults have ended, every contender is admitted and can release,
//     and then no entry, watch, session or goroutine is left.
//
// A client cannot know in advance what an operator does by hand: a hold whose
// entry was deleted or whose session was expired is condemned, and judged only
// by how soon its context ends.
//
// A run of 500 seeds or more also fails if its worlds did not reach one of the
// named states (states.go): a handoff to a client that is cut off, a limit that
// is lowered below the permits held; from 5,000 seeds on, a request of each
// kind with each fault. A service adds its own (Kind.States).
//
// # What is not covered
//
// The judge does not count wake-ups, and checks neither sequencers nor gates.
// No world has a client of another library, even where queues are stored as it
// stores them (onzk.Shared, without semaphores), a process that is stopped, or
// a sleeping machine. Locks within locks and their deadlocks have worlds of
// their own in package recipes. The drivers of memory, etcd (package onetcd)
// and ZooKeeper (package onzk) run here; those of databases and Redis have
// tests on real servers only. No name server fails. Sets of locks, groups,
// partitions, counters, onces and barriers have tests with random faults in
// their packages. A contender that is admitted by the shared queue watch is
// judged by the limits since its join.
//
// # Replay
//
// Each goroutine has its own generator, and requests draw from a sequence named
// after their sender. All delays are of random nanoseconds, so that events
// hardly ever happen at the same time, and the scheduler decides hardly
// anything. On ZooKeeper two of five worlds differ a little when they are run
// again: where several goroutines of one client send the same request at one
// instant, and where a pause and a deadline end at one instant, the scheduler
// chooses. On etcd the server's own goroutines add to that: repeat a
// seed that failed a few times.
package simulation
