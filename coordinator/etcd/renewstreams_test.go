package etcd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/connectivity"
)

// cut breaks all connections of the network.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// TestRenewalAfterALostConnectionUsesTheNext: its stream was lost unnoticed,
// and the client has connected again.
func TestRenewalAfterALostConnectionUsesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _, n := keeper(t)
		for range 3 {
			_, err := r.keepAlive(t.Context(), 1)
			check(t, err)
			n.cut()
			synctest.Wait() // the client notices
			r.client.ActiveConnection().Connect()
			until(t, "a connection", func() bool {
				return r.client.ActiveConnection().GetState() == connectivity.Ready
			})
		}
	})
}

// TestRenewalDoesNotWaitForAConnection: renewals that waited for one would all
// be sent together.
func TestRenewalDoesNotWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, server, n := keeper(t)
		n.hold() // from now on nobody answers a dial
		server.Stop()
		r.client.ActiveConnection().Connect()
		until(t, "a dial", func() bool { return r.client.ActiveConnection().GetState() == connectivity.Connecting })
		began := time.Now()
		_, err := r.keepAlive(t.Context(), 1)
		if err == nil || !strings.Contains(err.Error(), "no connection") || time.Since(began) > 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// hold lets dials wait until their context ends.
func (n *network) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = true
}

// TestStreamsThatWouldFailTooAreClosed: those to a member that does not answer,
// and with a refused token all.
func TestStreamsThatWouldFailTooAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		refused bool
		stay    int
	}{"no answer": {false, 1}, "the token is refused": {true, 0}} {
		closed := 0
		to := func(member uint64) *stream { return &stream{end: func() { closed++ }, member: member} }
		r := &renewals{idle: []*stream{to(1), to(2), to(1)}, opened: 4}
		r.fail(to(1), test.refused)
		if len(r.idle) != test.stay || r.opened != test.stay || closed != 4-test.stay {
			t.Errorf("%s: %d streams are idle, %d open, %d closed", name, len(r.idle), r.opened, closed)
		}
	}
}

// TestRefusalDoesNotReadAStreamInUse: an answer is refused after a read, when
// another call may use its stream. The race detector sees it.
func TestRefusalDoesNotReadAStreamInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _, _ := keeper(t)
		for range 5 {
			kept, err := r.keepAlive(t.Context(), 1)
			check(t, err)
			used := make(chan error, 1)
			go func() {
				_, err := r.keepAlive(t.Context(), 1)
				used <- err
			}()
			time.Sleep(time.Second) // synctest.Wait would put the two in order
			kept.Refuse()
			check(t, <-used)
		}
	})
}
