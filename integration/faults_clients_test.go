package integration_test

import (
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
)

// tokenGate is a resource that checks tokens, as promise P3 requires.
type tokenGate struct {
	mu                sync.Mutex
	highest           int64
	accepted, refused map[int64]int // writes by token
}

func newTokenGate() *tokenGate {
	return &tokenGate{accepted: map[int64]int{}, refused: map[int64]int{}}
}

func (r *tokenGate) write(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Token < r.highest {
		r.refused[e.Token]++
		return
	}
	r.highest = e.Token
	r.accepted[e.Token]++
}

func (r *tokenGate) of(token int64) (accepted, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted[token], r.refused[token]
}

// A process is stopped for longer than its TTL. Its holder sends the write that
// it had begun when it continues, and the resource refuses it. Its waiter,
// which was granted meanwhile, returns the loss. Its reader blocked the writers
// for one TTL. Its term ended before the next began.
func TestPausedProcessLosesItsHoldsAndItsLateWriteIsRefused(t *testing.T) {
	const ttl = 10 * time.Second
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c := s.client(t, longTTL)
		victim := newActor(t, s.url(ttl))
		reg := newTokenGate()
		victim.register = reg.write

		old := victim.takes(writeOn, name("holder"))
		term := victim.takes(aTerm, name("leader"))
		candidate := aTerm.queue(t, c, name("leader"), 2)
		first := aLock.take(t, c, name("waiter"))
		victim.waits(aLock, c, name("waiter"), 2)
		behind := aLock.queue(t, c, name("waiter"), 3)
		reader := aRead.take(t, c, name("reader"))
		victim.takes(aRead, name("reader"))
		writer := aWrite.queue(t, c, name("reader"), 3)
		await.Until(t, "writes of the first holder", func() bool { n, _ := reg.of(old.Token); return n > 0 })

		if err := victim.Pause(); err != nil {
			t.Fatal(err)
		}
		first.mustRelease(t) // this grants the lock to the paused waiter
		reader.mustRelease(t)
		next := aLock.take(t, c, name("holder"))
		if int64(next.Token) <= old.Token {
			t.Errorf("token %d after %d", next.Token, old.Token)
		}
		reg.write(event{Token: int64(next.Token)})
		elected, waited, wrote := candidate.granted(), behind.granted(), writer.granted()
		if int64(elected.Token) <= term.Token {
			t.Errorf("term %d after %d", elected.Token, term.Token)
		}
		before, _ := reg.of(old.Token)
		if err := victim.Resume(); err != nil {
			t.Fatal(err)
		}

		for what, i := range map[string]int{"holder": 1, "leader": 1, "reader": 1} {
			if e := victim.told(name(what), i); e.What != isEnded || !e.Lost {
				t.Errorf("%s: got %+v, want the loss", what, e)
			}
		}
		if e := victim.told(name("waiter"), 0); e.What != isRefused || !e.Lost {
			t.Errorf("the waiter was got %+v, want the loss and no grant", e)
		}
		await.Until(t, "a stale write", func() bool { _, refused := reg.of(old.Token); return refused > 0 })
		after, refused := reg.of(old.Token)
		t.Logf("%d writes of the paused holder refused", refused)
		if after != before {
			// They were in the pipe when the process was stopped, so the
			// register received them before the next holder's.
			t.Errorf("%d writes of the old holder accepted after the next one's", after-before)
		}
		for what, h := range map[string]hold{"holder": next, "leader": elected, "waiter": waited, "reader": wrote} {
			if h.Err() != nil {
				t.Errorf("%s: the next hold ended: %v", what, h.Err())
			}
			h.mustRelease(t)
		}
		for what, w := range map[string]way{"holder": aLock, "leader": aTerm, "waiter": aLock, "reader": aRead} {
			w.queued(t, c, name(what), 0)
		}
	})
}
