package netproxy_test

import (
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

func TestDelayShiftsOneDirection(t *testing.T) {
	p := startProxy(t, startEcho(t, "").addr())
	conn := dial(t, p)
	const delay = 150 * time.Millisecond
	for _, way := range []netproxy.Direction{netproxy.Up, netproxy.Down} {
		p.Delay(way, delay)
		start := time.Now()
		send(t, conn, "a")
		expect(t, conn, "a")
		if took := time.Since(start); took < delay {
			t.Errorf("direction %d: took %v with a delay of %v", way, took, delay)
		}
		p.Delay(way, 0)
	}
	p.Delay(netproxy.Down, time.Hour)
	send(t, conn, "b")
	silent(t, conn)
	p.Delay(netproxy.Down, 0)
	expect(t, conn, "b")
}
