package zookeeper

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestNoSingleServerIsBelievedThatASessionIsOver: a leader that was paused
// while the others elected another denies the sessions of its successor. The
// session would keep its entries for the TTL.
func TestNoSingleServerIsBelievedThatASessionIsOver(t *testing.T) {
	const both = 2
	for _, c := range []struct {
		how          string
		reconnects   bool
		deny, silent int // so many servers, one after the other
		hosts        string
		asked        int // by Close
		ended        int // at so many servers
	}{
		{how: "one denies it to Close", deny: 1, asked: 2, ended: 1},
		{how: "one denies it to a reconnect", reconnects: true, deny: 1, asked: 1, ended: 1},
		{how: "both deny it to Close", deny: both, asked: 2},
		{how: "both deny it to a reconnect and Close", reconnects: true, deny: both, asked: 1},
		{how: "one denies it, the other is silent", deny: 1, silent: 1, asked: 2},
		{how: "the only one denies it", deny: both, hosts: "10.0.0.1", asked: 1},
		{how: "the only one denies it to a reconnect", reconnects: true, deny: both, hosts: "10.0.0.1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			if c.hosts == "" {
				c.hosts = "10.0.0.1,10.0.0.2"
			}
			d, err := OpenWith(parse(t, "zk://"+c.hosts+"/app"), Dialer(f.dial))
			ok(t, err)
			s, err := d.Open(t.Context(), testTTL)
			ok(t, err)
			ended := 0
			f.set(func() {
				deny, silent := c.deny, c.silent
				f.grant = func(asked hello) (hello, bool) {
					switch {
					case deny > 0:
						deny--
						asked.session = 0
					case silent > 0:
						silent--
						return asked, false
					default:
						ended++
					}
					return asked, true
				}
			})
			if c.reconnects {
				f.cut()
				<-s.Done()
			}
			asked := len(f.askedSessions())
			if err := s.Close(soon(t, testTTL/2)); err != nil {
				t.Errorf("%s: Close = %v", c.how, err)
			}
			synctest.Wait()
			n := len(f.askedSessions()) - asked
			if n != c.asked || ended != c.ended || f.count(opCloseSession) < ended {
				t.Errorf("%s: Close asked %d servers, of which %d ended the session; want %d and %d",
					c.how, n, ended, c.asked, c.ended)
			}
			time.Sleep(time.Second)
		})
	}
}
