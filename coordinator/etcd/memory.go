package etcd

import (
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// memory is what a session remembers of its contenders and of queues to save requests.
type memory struct {
	mu sync.Mutex
	// plain has the create revisions of entries that no tail key has named, and that no
	// request was sent to delete, by the contender's prefix.
	plain map[string]int64
	// marks are to be deleted with a contender's entry: the markers of those ahead of it.
	marks map[string][]string
	// contended has queues in which the last join of this session found others.
	contended map[driver.Queue]bool
}

const mostContended = 1024 // queues; to forget one costs a request

func newMemory() memory {
	return memory{
		plain:     make(map[string]int64),
		marks:     make(map[string][]string),
		contended: make(map[driver.Queue]bool),
	}
}

func (m *memory) isContended(queue driver.Queue) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contended[queue]
}

// joined remembers how a contender has joined, with the create revision rev.
func (m *memory) joined(a *attempt, rev int64, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first || !a.Follows {
		m.plain[a.prefix] = rev
	}
	if first {
		delete(m.contended, a.queue)
		return
	}
	if len(m.contended) >= mostContended {
		clear(m.contended)
	}
	m.contended[a.queue] = true
}

// takePlain reports whether a plain delete may remove an entry, and does so once.
func (m *memory) takePlain(e mine) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	rev := m.plain[e.contender]
	delete(m.plain, e.contender)
	return rev == e.Rev
}

func (m *memory) noteMark(contender, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if noted := m.marks[contender]; len(noted) < mostMarks && !slices.Contains(noted, key) {
		m.marks[contender] = append(noted, key)
	}
}

func (m *memory) marksOf(contender string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[contender]
}

func (m *memory) drop(contender string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.plain, contender)
	delete(m.marks, contender)
}

// writes remembers the mod revisions of entries that were written, by
// contender. It saves requests; what it lacks, the refusal of a Write tells.
type writes struct {
	mu   sync.Mutex
	last map[string]written
}

// written is what a contender's entry was when this session last heard of it.
type written struct {
	keys.Entry
	mod int64
}

func newWrites() writes { return writes{last: make(map[string]written)} }

// revision is the newest mod revision of an entry that is known: that of its
// making if nobody wrote it.
func (w *writes) revision(e mine) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[e.contender]; ok && last.Entry == e.Entry {
		return last.mod
	}
	return e.Rev
}

func (w *writes) set(e mine, mod int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[e.contender] = written{e.Entry, mod}
}

// drop forgets an entry that went, so that what is remembered does not grow.
func (w *writes) drop(contender string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, contender)
}
