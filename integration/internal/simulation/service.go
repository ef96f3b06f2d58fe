package simulation

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// Kind is a kind of service. Worlds of one kind run one after the other within
// a process.
type Kind struct {
	// Test is the name of the test in integration/simulation that runs its
	// worlds, for the command that replays a seed.
	Test string
	// Shortest is the shortest TTL that the service grants; zero: a second.
	Shortest time.Duration
	// New starts the service of a world. It is called in the world's bubble.
	New func(Conditions) (Service, error)
	// Ops are the names of all single requests, as in Message.Op, that a run
	// must have hit with each fault.
	Ops []string
	// States are the named states of this service that a run must reach.
	States []string
	// Recipes are those of its names; nil: all. A run with some need not reach
	// named states.
	Recipes []string
	// Without are kinds of operations that no world has.
	Without []string
}

// Conditions are what a world determines before its service starts.
type Conditions struct {
	T    testing.TB // the bubble's
	Seed uint64
	// Rand is the generator of the world's settings. Only New may use it.
	Rand *rand.Rand
	TTL  time.Duration
	// World is the world itself, for states that the service sees.
	World World
}

// Service is the coordination service of a world, in the world's bubble. Its
// methods are safe for concurrent use.
type Service interface {
	// Connect starts a client process, with a link and a driver of its own.
	Connect(name string) (Link, error)

	// OnStep calls see with each change of a queue, in order, and at the
	// virtual instant at which it is applied. see locks the world: the service
	// must not wait for a caller of the world meanwhile. Every message takes
	// more than no time to reach a client, so no client knows earlier.
	OnStep(see func(memory.Step))

	// OnMessage calls decide for each single request, before it is sent.
	OnMessage(decide func(Message) memory.Fate)

	// Sessions returns the live sessions, as Session.ID of the driver names
	// them, in a fixed order.
	Sessions() []string
	// Expire ends a session as an operator would, and reports whether there was
	// such a session.
	Expire(session string) bool

	// Snapshot, Queues and Record return the data. They send no request, and
	// work while the service is stopped.
	Snapshot(queue driver.Queue) []driver.Entry
	Queues() []driver.Queue
	Record(queue driver.Queue) driver.Record

	// Remove deletes an entry by its key as an operator would.
	Remove(queue driver.Queue, key string) bool
	// AddForeign adds an entry of another program, which stays until Remove.
	AddForeign(queue driver.Queue) driver.Place

	// Stop stops the service; Start starts it again on the same data.
	Stop()
	Start()

	Stats() Stats
	Traits() Traits

	// Faults are the kinds of faults that only this service has.
	Faults() []Fault

	// Close ends the service, and waits for its goroutines.
	Close()
}

// Link is the connections of one client to the service. It is comparable, and
// the same value in each Message of the client.
type Link interface {
	// Driver is the client's driver, the same in each call.
	Driver() driver.Driver

	// Cut holds both directions until Heal, HoldRequests and HoldReplies one.
	// Held messages arrive late and in order.
	Cut()
	HoldRequests()
	HoldReplies()
	Heal()
	// Delay sets how much longer than usual messages take.
	Delay(request, reply time.Duration)
	// Reset breaks the connections; messages under way are lost.
	Reset()
	// Strand is Reset and Heal, but requests under way arrive later, those that
	// were held at Deliver. Their replies are lost.
	Strand()
	Deliver()
	// Expire ends all sessions of this client at the service.
	Expire() bool
	// Dials is how often the client has begun to connect to an address.
	Dials() int
}

// Message is one request of a driver. What is not known is empty.
type Message struct {
	Link    Link
	Op      string
	Session string
	Queue   driver.Queue
	ID      string          // of the contender
	Context context.Context // of the call
}

// Stats are the current numbers of a service. Entries includes foreign ones.
type Stats struct{ Sessions, Entries, Watches int }

// Traits are what the judge has to know about a service.
type Traits struct {
	// Stale: views may show contenders that have left.
	Stale bool
	// Lag is how much older than the call the first in a queue, or a record,
	// may be that a client reads; zero if a read is never answered by a member
	// that lags.
	Lag time.Duration
	// Ill is for how long a member may still be ill after the faults of the
	// others: it may delay, and apply late, what it is sent.
	Ill time.Duration
	// Rounds is how many messages, one after the other, take the place of one
	// message of memory; zero: 1.
	Rounds int
	// Passes: a contender may be admitted past an entry of another program, of
	// which the contract promises nothing.
	Passes bool
	// Dials is how often a client may begin to connect in a second of a long
	// outage; zero: connections are not counted.
	Dials float64
	// Late is how much later, besides, a client without faults may be notified
	// or served than on memory.
	Late time.Duration
}

// Fault is a kind of fault. Do causes it, and returns when it has ended, or
// leaves it to the world's end of all faults: Cut, Delay and HoldReplies end
// then by themselves. While Do runs, no other fault begins.
type Fault struct {
	Kind string
	Do   func(w World, r *rand.Rand, l Link)
}

// World is what a service and its faults use of their world.
type World interface {
	// TTL is that of all sessions.
	TTL() time.Duration
	// Reached records that the world has reached a named state; see
	// Kind.States.
	Reached(state string)
	// Queue is the queue of a name, or "".
	Queue(name string) driver.Queue
	// Label names the actor of a contender, or is empty. Contenders' IDs differ
	// in each run; their labels do not.
	Label(id string) string
	// Blame records a violation.
	Blame(format string, args ...any)
	// Refuses says that the service refuses requests of all clients from now
	// on, or that it no longer does.
	Refuses(does bool)
	// Mended reports whether the faults have ended.
	Mended() bool
}
