package virtualzk_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// TestOneOfTwoLoneJoinsThatCrossIsRefused: both contenders want to be alone and
// have read that the queue is empty before the entry of either is there. The
// first entry is that of a contender whose reply is under way for long: it is
// alone. Meanwhile the other one finds its own entry behind, and removes it.
func TestOneOfTwoLoneJoinsThatCrossIsRefused(t *testing.T) {
	for _, layout := range []string{"native", "curator", "kazoo"} {
		synctest.Test(t, func(t *testing.T) {
			const queue, step = "mutex/n", 200 * time.Millisecond
			e := virtualzk.New(virtualzk.Config{
				Members: 3, Tick: time.Second, Peers: time.Millisecond, Containers: time.Hour,
				Random: rand.New(rand.NewPCG(1, 2)),
			})
			var links [2]*virtualzk.Link
			var sessions [2]driver.Session
			for i := range links {
				links[i] = e.Link("")
				d, err := zookeeper.OpenWith(e.URL("/x?layout="+layout), zookeeper.Dialer(links[i].Dial))
				must(t, err)
				sessions[i], err = d.Open(t.Context(), 10*time.Second)
				must(t, err)
				defer func() {
					must(t, errors.Join(sessions[i].Close(t.Context()), d.Close(t.Context())))
				}()
			}
			alone := func(i int) driver.Contender {
				return driver.Contender{ID: fmt.Sprintf("%016x", i), Mode: "x", Alone: true}
			}
			j, err := sessions[0].Join(t.Context(), queue, alone(9)) // the queue's own node stays
			must(t, err)
			must(t, sessions[0].Leave(t.Context(), queue, j.Place))
			time.Sleep(step) // all members know that
			e.OnRequest(func(r virtualzk.Request) (f virtualzk.Fate) {
				switch {
				case r.Op == "multi" && r.Link == links[0]:
					f.DelayRequest, f.DelayReply = step, 4*step
				case r.Op == "multi":
					f.DelayRequest = 2 * step
				}
				return f
			})
			first, ends := make(chan driver.Joined, 1), make(chan error, 1)
			began := time.Now()
			go func() {
				j, err := sessions[0].Join(t.Context(), queue, alone(0))
				first <- j
				ends <- err
			}()
			j, err = sessions[1].Join(t.Context(), queue, alone(1))
			if took := time.Since(began); !errors.Is(err, driver.ErrTaken) || took < 2*step || took > 4*step {
				t.Errorf("%s: the second one got %+v, %v after %v", layout, j, err, took)
			}
			j, err = <-first, <-ends
			if err != nil || !j.First {
				t.Errorf("%s: the first one got %+v, %v", layout, j, err)
			}
			view, err := sessions[0].Ahead(t.Context(), queue, driver.Place{})
			if err != nil || len(view.Ahead) != 1 || view.Ahead[0].Key != j.Place.Key {
				t.Errorf("%s: left in the queue: %+v, %v", layout, view.Ahead, err)
			}
			e.OnRequest(nil)
		})
	}
}
