package onetcd

import (
	"strings"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// changed makes steps of changes, one revision after the other.
func (s *service) changed(all []virtualetcd.Change) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Revision == all[0].Revision {
			n++
		}
		for _, step := range s.steps(all[:n]) {
			s.mu.Lock()
			see := s.see
			s.mu.Unlock()
			if see != nil {
				see(step)
			}
		}
		all = all[n:]
	}
}

// steps are those of one revision.
func (s *service) steps(all []virtualetcd.Change) (steps []memory.Step) {
	s.mu.Lock()
	for _, c := range all {
		if delete(s.keys, c.Key); c.After != nil {
			s.keys[c.Key] = c.After
		}
	}
	s.mu.Unlock()
	converted := map[string]bool{} // sessions and contenders
	marked := map[string]bool{}    // keys
	for _, c := range all {
		n, _ := parse(c.Key)
		switch {
		case n.marker && c.After != nil:
			marked[strings.TrimSuffix(c.Key, "~")] = true
		case n.rank > 0 && c.Before == nil:
			converted[n.session+n.id] = true
		}
	}
	for _, c := range all {
		step := memory.Step{By: s.by(c)}
		n, ok := parse(c.Key)
		switch queue, is := recordOf(c.Key); {
		case is:
			step.Kind, step.Queue, step.Record = memory.StepRecord, queue, record(c.After)
		case !ok || n.marker:
			continue
		case c.After == nil:
			if converted[n.session+n.id] {
				continue
			}
			step.Kind, step.Entry, step.Passed = memory.StepLeft, n.entry(c.Before), marked[c.Key]
		case c.Before != nil:
			step.Kind, step.Entry = memory.StepWritten, n.entry(c.After)
		case n.rank > 0:
			step.Kind, step.Entry = memory.StepConverted, n.entry(c.After)
		default:
			step.Kind, step.Entry = memory.StepJoined, n.entry(c.After)
		}
		if step.Kind != memory.StepRecord {
			step.Queue = n.queue
		}
		steps = append(steps, step)
	}
	return steps
}

// by tells who made a change: the operator, a request of a client that is being
// handled, or else the clock.
func (s *service) by(c virtualetcd.Change) memory.Hand {
	s.mu.Lock()
	byHand := s.byHand[c.Key] || c.Before != nil && c.Before.Lease != 0 && s.byHand[hex(c.Before.Lease)]
	s.mu.Unlock()
	switch {
	case byHand:
		return memory.ByOperator
	case s.Asked(c):
		return memory.ByClient
	}
	return memory.ByClock
}
