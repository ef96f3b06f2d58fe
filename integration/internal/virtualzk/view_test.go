package virtualzk_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// TestViewAfterAWatchLacksWhatHasLeft, also if the session watches the whole
// queue: the event of an entry comes before that of its queue.
func TestViewAfterAWatchLacksWhatHasLeft(t *testing.T) {
	for _, layout := range []string{"native", "curator"} {
		synctest.Test(t, func(t *testing.T) {
			e := virtualzk.New(virtualzk.Config{Random: rand.New(rand.NewPCG(1, 2))})
			open := func() driver.Session {
				d, err := zookeeper.OpenWith(e.URL("/x?layout="+layout), zookeeper.Dialer(e.Link("").Dial))
				must(t, err)
				s, err := d.Open(t.Context(), 10*time.Second)
				must(t, err)
				return s
			}
			s, other := open(), open()
			first, err := other.Join(t.Context(), "mutex/n", driver.Contender{ID: "0123456789abcdef", Mode: "x"})
			must(t, err)
			second, err := other.Join(t.Context(), "mutex/n", driver.Contender{ID: "0123456789abcdee", Mode: "x"})
			must(t, err)
			go func() { _ = s.Watch(t.Context(), "mutex/n", first.Place, second.Place) }() // on the queue
			time.Sleep(time.Second)
			time.AfterFunc(time.Second, func() { must(t, other.Leave(t.Context(), "mutex/n", first.Place)) })
			must(t, s.Watch(t.Context(), "mutex/n", first.Place))
			view, err := s.Ahead(t.Context(), "mutex/n", driver.Place{})
			must(t, err)
			if len(view.Ahead) != 1 || view.Ahead[0].Key != second.Place.Key {
				t.Errorf("%s: the view shows %v", layout, view.Ahead)
			}
			must(t, s.Close(t.Context()))
			must(t, other.Close(t.Context()))
			e.Close()
			time.Sleep(5 * time.Second) // the client library's Close waits for a reply
		})
	}
}
