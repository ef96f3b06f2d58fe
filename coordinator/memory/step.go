package memory

import (
	"bytes"

	"github.com/baton-go/baton/coordinator/driver"
)

// Step is one change of a queue at the service, for [Service.OnStep].
type Step struct {
	Kind   StepKind
	By     Hand
	Queue  driver.Queue
	Entry  driver.Entry  // that changed: as it is after the step, or as it was if it left
	Passed bool          // for StepLeft: it left by Pass
	Record driver.Record // for StepRecord: as it is after the step
}

// StepKind says what happened.
type StepKind string

// The steps of a service.
const (
	StepJoined    StepKind = "joined"
	StepConverted StepKind = "converted"
	StepWritten   StepKind = "written"
	StepLeft      StepKind = "left"
	StepRecord    StepKind = "record" // the queue's record was written or removed
)

// Hand says who did it.
type Hand string

// The hands that change queues.
const (
	ByClient   Hand = "client"   // a request of the entry's own session
	ByClock    Hand = "clock"    // the session's TTL ran out
	ByOperator Hand = "operator" // a lever of the service, or driver.Operator.Remove
)

// OnStep calls see in every step of every queue, from now on. Nil ends it.
//
// see runs in the middle of the step: after the queue has changed, and before
// anybody is notified. So a hold that is alive in the step in which its entry
// leaves outlives its entry, if only by an instant. see runs with the service's
// lock held: it must not wait, nor call the service or anything that does.
func (s *Service) OnStep(see func(Step)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see = see
}

// step tells the observer of a step. The caller holds s.mu.
func (s *Service) step(step Step) {
	if s.see == nil {
		return
	}
	step.Entry.Value = bytes.Clone(step.Entry.Value)
	s.see(step)
}
