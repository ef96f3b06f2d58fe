package nodes

import "sync"

// parents guesses whether a queue is missing that the driver has not used
// before. The library cannot create a container in a multi, and a join without
// its queue is refused, which costs the servers as much as a write. So a client
// that locks new names creates each queue first, and one that locks the names
// of others joins first: the next unknown name is taken to be like the last.
//
//	                          the queue is missing     it is there
//	last one was missing      create, join             create (NodeExists), join
//	last one was there        join (NoNode),           join
//	                            create, join
//
// A queue that was used before is there, unless the service has removed it.
type parents struct {
	mu      sync.Mutex
	known   map[string]struct{} // by path
	missing bool                // the last one that was not known was
}

const mostParents = 1024

// guess returns whether a node was used before, and if not, whether it is
// probably missing.
func (p *parents) guess(node string) (known, missing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known = p.known[node]
	return known, !known && p.missing
}

// learn notes whether a node that was not known was missing. It is there now.
func (p *parents) learn(node string, missing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = missing
	if p.known == nil || len(p.known) >= mostParents {
		p.known = make(map[string]struct{})
	}
	p.known[node] = struct{}{}
}
