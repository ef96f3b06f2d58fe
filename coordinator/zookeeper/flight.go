package zookeeper

import (
	"slices"
	"sync"
)

// joins are the joins and conversions of a session that may still be applied, by contender.
type joins struct {
	mu sync.Mutex
	m  map[string][]*flight
}

// flight is one call of Join or Convert, together with the requests that it sent and did not wait for.
type flight struct {
	parts  int           // the call and its requests
	landed chan struct{} // closed when there are none left; made for those who wait
}

func newJoins() *joins { return &joins{m: make(map[string][]*flight)} }

// begin starts a flight, and returns those of the same contender that began before.
func (j *joins) begin(id string) (f *flight, earlier []*flight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f = &flight{parts: 1}
	earlier = j.awaited(id)
	j.m[id] = append(j.m[id], f)
	return f, earlier
}

// extend adds a request to a flight.
func (j *joins) extend(f *flight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.parts++
}

// end ends the call or a request.
func (j *joins) end(id string, f *flight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.parts--; f.parts > 0 {
		return
	}
	if f.landed != nil {
		close(f.landed)
	}
	left := slices.DeleteFunc(j.m[id], func(other *flight) bool { return other == f })
	if j.m[id] = left; len(left) == 0 {
		delete(j.m, id)
	}
}

// flights returns what is under way for a contender.
func (j *joins) flights(id string) []*flight {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.awaited(id)
}

// awaited returns what is under way for a contender to somebody who waits for it. It is called with the mutex held.
func (j *joins) awaited(id string) []*flight {
	all := slices.Clone(j.m[id])
	for _, f := range all {
		if f.landed == nil {
			f.landed = make(chan struct{})
		}
	}
	return all
}
