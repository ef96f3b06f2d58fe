package zookeeper

import (
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// joins are the joins and conversions of a session that may still be applied, by contender: the latest of each, which knows the others.
type joins struct {
	mu sync.Mutex
	m  map[string]*flight
}

// flight is one call of Join or Convert, together with the requests that it sent and did not wait for. Requests that belong to
// none have nil.
type flight struct {
	among  *joins
	line   driver.Line
	id     string        // the contender's
	before *flight       // one of the same contender
	parts  int           // the call and its requests
	landed chan struct{} // closed when there are none left; made for those who wait
}

func newJoins() *joins { return &joins{m: make(map[string]*flight)} }

// begin starts a flight, and returns those of the same contender that began before.
func (j *joins) begin(line driver.Line, id string) (f *flight, earlier []*flight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	earlier = j.awaited(id)
	f = &flight{among: j, line: line, id: id, before: j.m[id], parts: 1}
	j.m[id] = f
	return f, earlier
}

// extend adds a request to a flight.
func (f *flight) extend() {
	if f == nil {
		return
	}
	f.among.mu.Lock()
	defer f.among.mu.Unlock()
	f.parts++
}

// end ends the call or a request.
func (f *flight) end() {
	if f == nil {
		return
	}
	j := f.among
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.parts--; f.parts > 0 {
		return
	}
	if f.landed != nil {
		close(f.landed)
	}
	if latest := j.m[f.id]; latest != f {
		latest.without(f)
	} else if j.m[f.id] = f.before; f.before == nil {
		delete(j.m, f.id)
	}
}

// without takes a flight out of those before this one.
func (f *flight) without(other *flight) {
	for f.before != other {
		f = f.before
	}
	f.before = other.before
}

// flights returns what is under way for a contender.
func (j *joins) flights(id string) []*flight {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.awaited(id)
}

// awaited returns what is under way for a contender to somebody who waits for it. It is called with the mutex held.
func (j *joins) awaited(id string) (all []*flight) {
	for f := j.m[id]; f != nil; f = f.before {
		if f.landed == nil {
			f.landed = make(chan struct{})
		}
		all = append(all, f)
	}
	return all
}
