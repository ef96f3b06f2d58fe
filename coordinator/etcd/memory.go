package etcd

import (
	"maps"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// memory is what a session remembers. The set of contenders is needed; the rest
// saves requests.
type memory struct {
	mu sync.Mutex
	// contenders are those that may have an entry, by the prefix of its key.
	contenders map[string]*known
	// contended has the queues in which this session's last join was not the
	// first, and of which no view since showed one contender only.
	contended map[driver.Queue]bool
	newest    int64 // the newest create revision of an entry, see known.after
}

// known is what a session knows of a contender.
type known struct {
	keys.Entry // zero while the outcome of a join or a conversion is not known

	mod   int64    // the newest mod revision of the entry that is known
	plain bool     // see session.delete
	terms bool     // it joined by a version of the record
	marks []string // the markers of entries ahead, to delete with this one
	// after is older than all entries that it can have. Those up to after are
	// of an earlier contender with its name, which the session has forgotten:
	// they are gone.
	after int64

	// What the own watch has shown of its keys: see ownWatches.
	there, thereAt int64 // the create revision of its key when that was read
	went           int64 // the newest revision that deleted its key

	passes int64 // the create revision with which Pass was called: see session.passes
}

const mostContended = 1024 // queues; forgetting one costs a request

func newMemory() memory {
	return memory{contenders: make(map[string]*known), contended: make(map[driver.Queue]bool)}
}

// expect notes that a request is about to be sent which may give the contender
// an entry. It returns the entry of before, for keep.
func (m *memory) expect(contender string) (before keys.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(contender)
	before, k.Entry = k.Entry, keys.Entry{}
	return before
}

// keep notes that the request gave the contender nothing.
func (m *memory) keep(contender string, before keys.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(contender).Entry = before
}

// of returns what is known of a contender. The caller holds m.mu.
func (m *memory) of(contender string) *known {
	k := m.contenders[contender]
	if k == nil {
		k = &known{after: m.newest}
		m.contenders[contender] = k
	}
	return k
}

// got notes the contender's entry. If the contender was forgotten while its
// join was under way, the entry is gone, and is no newer than known.after.
func (m *memory) got(contender string, e keys.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = max(m.newest, e.Rev)
	k := m.of(contender)
	k.Entry, k.mod, k.plain = e, e.Rev, false
}

// joined notes the entry, and whether the queue was contended.
func (m *memory) joined(a *attempt, e keys.Entry, first bool) {
	m.got(a.prefix, e)
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(a.prefix)
	k.plain, k.terms = first || !a.Follows, a.Record != 0
	if first {
		delete(m.contended, a.queue)
		return
	}
	if len(m.contended) >= mostContended {
		clear(m.contended)
	}
	m.contended[a.queue] = true
}

// isAlone notes that the queue has one contender, of this session.
func (m *memory) isAlone(queue driver.Queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.contended, queue)
}

func (m *memory) isContended(queue driver.Queue) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contended[queue]
}

// about calls do with what is known of an entry if it is the contender's
// newest.
func (m *memory) about(e mine, do func(k *known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.contenders[e.contender]; k != nil && k.Entry == e.Entry {
		do(k)
	}
}

// noteMark notes a marker to delete with the entry.
func (m *memory) noteMark(e mine, mark string) {
	m.about(e, func(k *known) {
		if len(k.marks) < mostMarks && !slices.Contains(k.marks, mark) {
			k.marks = append(k.marks, mark)
		}
	})
}

// gone forgets an entry that someone else has removed.
func (m *memory) gone(e mine) {
	m.about(e, func(*known) { delete(m.contenders, e.contender) })
}

// drop forgets a contender that has no entry and cannot get one.
func (m *memory) drop(contender string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.contenders, contender)
}

// all returns the contenders that may have an entry.
func (m *memory) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.contenders))
}
