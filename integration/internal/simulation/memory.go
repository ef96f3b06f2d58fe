package simulation

import (
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// Memory is the service in memory. In half of the worlds views are stale; in
// some sessions end early, and in some the optional hints are missing.
var Memory = Kind{
	Test: "TestSimulationOnMemory",
	New:  newMemory,
	Ops: []string{
		string(memory.OpOpen), string(memory.OpRenew), string(memory.OpJoin), string(memory.OpAhead),
		string(memory.OpWatch), string(memory.OpConvert), string(memory.OpWrite),
		string(memory.OpLeave), string(memory.OpForget), string(memory.OpList),
		string(memory.OpHead), string(memory.OpRecord), string(memory.OpSetRecord),
		string(memory.OpClose),
	},
}

func newMemory(c Conditions) (Service, error) {
	var opts []memory.Option
	stale := c.Rand.IntN(2) == 0
	if stale {
		opts = append(opts, memory.WithStaleViews(c.Seed))
	}
	if c.Rand.IntN(4) == 0 {
		opts = append(opts, memory.WithSlack(c.TTL*3/10))
	}
	if c.Rand.IntN(3) == 0 {
		opts = append(opts, memory.WithFewHints(c.Seed))
	}
	return inMemory{memory.NewService(opts...), stale}, nil
}

// inMemory is a memory.Service, which has the methods of most of Service.
type inMemory struct {
	*memory.Service
	stale bool
}

func (s inMemory) Connect(string) (Link, error) { return memoryLink{s.Driver()}, nil }

func (s inMemory) OnMessage(decide func(Message) memory.Fate) {
	s.OnRequest(func(r memory.Request) memory.Fate {
		return decide(Message{Link: memoryLink{r.Driver}, Op: string(r.Op), Session: r.Session,
			Queue: r.Queue, ID: r.ID, Context: r.Context})
	})
}

func (s inMemory) Stats() Stats {
	all := s.Service.Stats()
	return Stats{Sessions: all.Sessions, Entries: all.Entries, Watches: all.Watches}
}

func (s inMemory) Traits() Traits { return Traits{Stale: s.stale} }
func (inMemory) Faults() []Fault  { return nil }
func (inMemory) Close()           {}

// levers are the methods of a memory.Driver, which has those of a Link.
type levers = memory.Driver

type memoryLink struct{ *levers }

func (memoryLink) Dials() int              { return 0 }
func (l memoryLink) Driver() driver.Driver { return l.levers }
