package coordinatortest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var viewCases = []testCase{
	{name: "V1/a view shows those ahead in order", body: viewInOrder},
	{name: "V1/a view is as new as the own join", body: viewAsNewAsJoin},
	{name: "V1/a view is as new as what watch has told", body: viewAsNewAsTold},
	{name: "V1/a view never lacks one ahead while others come and go", body: viewNeverLacks},
	{name: "V2/a place that was left has no view", body: viewOfLeft},
	{name: "V2/a place of an ended session has no view", needs: []Lever{Expire}, body: viewOfEnded},
}

// viewInOrder: nobody leaves, so there is only one right view for each place.
func viewInOrder(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	var places []driver.Place
	for i := range 6 {
		places = append(places, e.join([]session{a, b}[i%2], line).Place)
	}
	for i, p := range places {
		e.same(e.ahead([]session{a, b}[i%2], line, p), ids(places[:i]), fmt.Sprintf("ahead of number %d:", i+1))
	}
}

// viewAsNewAsJoin: the one ahead joined through another client a moment ago, and was acknowledged.
func viewAsNewAsJoin(e *env) {
	a, b := e.open(), e.open()
	for range 20 {
		line := e.line()
		first := e.join(a, line)
		own := e.join(b, line)
		e.same(e.ahead(b, line, own.Place), []string{first.Place.ID}, "ahead is the one that joined before:")
	}
}

// viewAsNewAsTold: a view that still shows the one whose leaving ended the wait would be
// waited for again, in a circle.
func viewAsNewAsTold(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	var places []driver.Place
	for range 6 {
		places = append(places, e.join(a, line).Place)
	}
	own := e.join(b, line)
	for len(places) > 0 {
		i := len(places) / 2
		e.leave(a, line, places[i])
		e.ok(e.again(func(ctx context.Context) error {
			return b.Watch(ctx, line, places[i])
		}), "Watch of a place that was left")
		places = slices.Delete(places, i, i+1)
		e.same(e.ahead(b, line, own.Place), ids(places), "ahead without those that Watch has told are gone:")
	}
}

// crowd is what a test knows about a line that others come to and leave.
type crowd struct {
	mu     sync.Mutex
	tokens map[string]driver.Token
}

// standing returns those who stand ahead of a token for sure: their Join has returned and
// their Leave was not called.
func (c *crowd) standing(ahead driver.Token) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for id, token := range c.tokens {
		if token < ahead {
			all[id] = true
		}
	}
	return all
}

func (c *crowd) set(id string, token driver.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token == 0 {
		delete(c.tokens, id)
	} else {
		c.tokens[id] = token
	}
}

// churn joins and leaves at random, a few places at a time.
func (c *crowd) churn(e *env, s session, line driver.Line, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	var mine []driver.Joined
	for range 40 {
		// A pause of random length mixes the steps with those of the others.
		sleep(e.ctx, time.Duration(random.Int64N(int64(e.Settle/50))))
		if len(mine) < 3 || random.IntN(2) == 0 {
			j, err := s.Join(e.soon(), line, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			c.set(j.Place.ID, j.Token)
			mine = append(mine, j)
			continue
		}
		i := random.IntN(len(mine))
		j := mine[i]
		mine = slices.Delete(mine, i, i+1)
		c.set(j.Place.ID, 0)
		if err := s.Leave(e.soon(), line, j.Place); err != nil {
			return fmt.Errorf("Leave: %w", err)
		}
	}
	return nil
}

// viewNeverLacks: whoever stood ahead before a view was asked for, and still stands when it came, must be in it.
func viewNeverLacks(e *env) {
	line, watcher := e.line(), e.open()
	c := &crowd{tokens: map[string]driver.Token{}}
	var running []*outcome
	for i := range 3 {
		s := e.open()
		running = append(running, e.start(func() error { return c.churn(e, s, line, uint64(i)) }))
	}
	for range 20 {
		own := e.join(watcher, line)
		for range 3 {
			sleep(e.ctx, e.Settle/100)
			before := c.standing(own.Token)
			view := e.ahead(watcher, line, own.Place)
			for id := range c.standing(own.Token) {
				if before[id] && !slices.Contains(view, id) {
					e.fail("all who stand ahead", "the view %s lacks %.6s, who was there all the time", sprint(view), id)
				}
			}
		}
		e.leave(watcher, line, own.Place)
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "others who come and go"), "others who come and go")
	}
}

// viewOfLeft: an empty view for a place that is not in line would read as an admission.
func viewOfLeft(e *env) {
	s := e.open()
	line := e.line()
	own := e.join(s, line)
	e.join(s, line)
	e.leave(s, line, own.Place)
	e.noView(s, line, own.Place)
	if e.has(Remove) {
		own = e.join(s, line)
		e.ok(e.svc.Remove(e.soon(), line, own.Place), "Remove of the harness")
		e.noView(s, line, own.Place)
	}
}

// viewOfEnded: the client need not know yet that its session is over.
func viewOfEnded(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	e.join(other, line)
	own := e.join(s, line)
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	e.noView(s, line, own.Place)
}

// noView waits until Ahead fails: a view may be older than the end of its asker's own entry.
func (e *env) noView(s session, line driver.Line, own driver.Place) {
	var err error
	e.eventually("Ahead fails", func() bool {
		err = e.again(func(ctx context.Context) error {
			_, err := s.Ahead(ctx, line, own)
			return err
		})
		return err != nil
	})
	e.is(err, "Ahead of a place that is gone", driver.ErrGone, driver.ErrSessionLost)
}
