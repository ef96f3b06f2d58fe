package memory

import (
	"bytes"

	"github.com/baton-go/baton/coordinator/driver"
)

// Step is one thing that happened to a line at the service, for the function given to [Service.OnStep].
type Step struct {
	Kind StepKind
	By   Hand
	Line driver.Line
	// Entry is the entry that it happened to: as it is after the step, or, if it left, as it was.
	Entry driver.Entry
	// Passed: it left by Pass, for StepLeft.
	Passed bool
	// Record is the line's record after the step, for StepRecord.
	Record driver.Record
}

// StepKind says what happened.
type StepKind string

// The steps of a service.
const (
	StepJoined    StepKind = "joined"
	StepConverted StepKind = "converted"
	StepWritten   StepKind = "written"
	StepLeft      StepKind = "left"
	StepRecord    StepKind = "record" // the line's record was written or removed
)

// Hand says who did it.
type Hand string

// Whoever can do something to a line.
const (
	ByClient   Hand = "client"   // a request: of the entry's own session, if it is about an entry
	ByClock    Hand = "clock"    // the session's ttl ran out
	ByOperator Hand = "operator" // Expire, Remove, RemoveRecord, AddForeign, and the Remove of a session
)

// OnStep has see told of every step of every line, from now on. Nil ends it.
//
// It is told in the middle of the step: after the line has changed, and before anybody hears of that. So a test that finds a
// hold alive at the moment at which its entry leaves has found a hold that outlives its entry, if only by an instant. see is
// called with the service's lock held, by one goroutine at a time: it must not wait, nor call the service or anything
// that does.
func (s *Service) OnStep(see func(Step)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see = see
}

// step tells of a step. The caller holds s.mu.
func (s *Service) step(kind StepKind, by Hand, name driver.Line, e driver.Entry) {
	step := Step{Kind: kind, By: by, Line: name, Entry: e}
	if kind == StepRecord {
		step.Record = s.record(name)
	}
	s.tell(step)
}

func (s *Service) tell(step Step) {
	if s.see == nil {
		return
	}
	step.Entry.Value = bytes.Clone(step.Entry.Value)
	s.see(step)
}
