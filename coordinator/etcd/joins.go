package etcd

import (
	"maps"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// joins is what a session remembers of its own joins: the epoch to send with the next
// one, and which of those under way have been forgotten meanwhile.
//
// The epoch is the sentinel's mod revision. Each join compares it, each Forget raises it,
// so a join that was sent before a Forget cannot be applied after it. One hole
// is left: a join whose compare failed may try again with the new epoch, and if it is
// the very join that was forgotten, it must not. Hence the order
//
//	Forget:  mark the calls of this ID; send the transaction that raises the epoch
//	Join:    take the epoch unless the call is marked, in one critical section; send
//
// A call that is not marked yet took an epoch from before the Forget, which the
// Forget's transaction makes worthless, for the epoch it writes is newer than any
// that was ever known.
//
// Refusing to try again at all would need no book-keeping, but then one contender that
// gives up makes all other joins of its session fail.
type joins struct {
	mu    sync.Mutex
	epoch int64
	calls map[string]*call // by the prefix of the contender's key
	// unheard has, by the same, those with an attempt of this epoch that had no answer, and may be applied late.
	// One of an earlier epoch may not.
	unheard map[string]bool
	// mine has the prefixes of all keys that contenders may have, for a session that cannot
	// remove them by revoking its lease. Otherwise it is nil.
	mine map[string]bool
}

// call is the calls of Join under way for one contender, mostly one.
type call struct {
	n         int
	forgotten bool
}

// enter registers a call of Join. The check of alive happens under the same mutex as the
// reading of mine by asked: Close ends the session before it asks, so a
// join either is in its list or is refused here.
func (j *joins) enter(contender string, alive func() error) (*call, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := alive(); err != nil {
		return nil, err
	}
	c := j.calls[contender]
	if c == nil {
		c = &call{}
		j.calls[contender] = c
	}
	c.n++
	j.note(contender)
	return c, nil
}

// expect says that a contender may get a key of another prefix, as that of one who is converted. The
// check of alive is there for the same reason as in enter.
func (j *joins) expect(prefix string, alive func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := alive(); err != nil {
		return err
	}
	j.note(prefix)
	return nil
}

// note is called with the mutex held.
func (j *joins) note(prefix string) {
	if j.mine != nil {
		j.mine[prefix] = true
	}
}

func (j *joins) exit(contender string, c *call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.n--; c.n == 0 && j.calls[contender] == c {
		delete(j.calls, contender)
	}
}

// take returns the epoch to send with an attempt. A forgotten call gets none.
func (j *joins) take(c *call) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.forgotten {
		return 0, driver.Wrap(driver.ErrUnavailable, errForgotten)
	}
	return j.epoch, nil
}

// forget marks the calls of the contender that are under way. Later ones start anew. They count as not answered,
// since nobody waits for their answers.
func (j *joins) forget(contender string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.calls[contender]; c != nil {
		c.forgotten = true
		delete(j.calls, contender)
		j.unheard[contender] = true
	}
}

// lost says that an attempt had no answer.
func (j *joins) lost(contender string, c *call, epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch == j.epoch && !c.forgotten { // who is forgotten is counted already, and may have been settled since
		j.unheard[contender] = true
	}
}

// late reports whether a join of the contender may be applied yet.
func (j *joins) late(contender string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unheard[contender] || j.calls[contender] != nil
}

// raise learns an epoch. Answers may arrive in any order, so the newest wins; an
// old one would cost each join an attempt.
func (j *joins) raise(epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch > j.epoch {
		j.epoch = epoch
		clear(j.unheard)
	}
}

// asked lists the prefixes below which there may be an entry.
func (j *joins) asked() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Keys(j.mine))
}

// removed says that there is no entry below these prefixes and that none can come.
func (j *joins) removed(prefixes ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range prefixes {
		delete(j.mine, p)
	}
}
