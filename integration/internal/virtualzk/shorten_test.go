package virtualzk_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// TestEndOfAShortenedSessionIsTheClocksOnlyIfItsClientKnows that a member has
// shortened it: a client that got the reply has ended its holds.
func TestEndOfAShortenedSessionIsTheClocksOnlyIfItsClientKnows(t *testing.T) {
	for _, knows := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const ttl = 10 * time.Second
			e := virtualzk.New(virtualzk.Config{
				Tick: time.Second, Peers: time.Millisecond, Random: rand.New(rand.NewPCG(1, 2)),
			})
			var by virtualzk.Cause
			e.OnCommit(func(txn virtualzk.Txn) {
				if txn.Closes != 0 {
					by = txn.By
				}
			})
			link := e.Link("")
			d, err := zookeeper.OpenWith(e.URL("/x"), zookeeper.Dialer(link.Dial))
			must(t, err)
			s, err := d.Open(t.Context(), ttl)
			must(t, err)
			e.Shorten(0, ttl/4)
			e.OnRequest(func(r virtualzk.Request) virtualzk.Fate {
				return virtualzk.Fate{DropReply: !knows && r.Op == "connect"}
			})
			link.Reset()
			time.Sleep(ttl / 10)
			link.Cut()
			time.Sleep(ttl)
			select {
			case <-s.Done():
				if !knows {
					t.Error("the client knows it")
				}
			default:
				if knows {
					t.Error("the client does not know it")
				}
			}
			want := map[bool]virtualzk.Cause{false: virtualzk.ByShortening, true: virtualzk.ByClock}[knows]
			if by != want {
				t.Errorf("ended by %q; want %q", by, want)
			}
			e.OnRequest(func(virtualzk.Request) virtualzk.Fate { return virtualzk.Fate{} })
			link.Heal()
			must(t, s.Close(t.Context()))
			must(t, d.Close(t.Context()))
			e.Close()
			time.Sleep(5 * time.Second) // the client library's Close waits for a reply
		})
	}
}
