package integration_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
)

// networked is a worker process behind a network of its own.
type networked struct {
	*proc.Child
	proxy *netproxy.Proxy
}

// startNetworked starts a worker with a URL and args, and waits until it is
// ready.
func startNetworked(t *testing.T, s site, ttl time.Duration, worker string, args ...string) (w networked) {
	t.Helper()
	w.proxy = servers.Proxy(t, s.endpoints)
	w.Child = proc.Start(t, worker, append([]string{s.url(ttl, w.proxy.Addr())}, args...)...)
	var ready string
	w.Recv(&ready)
	return w
}

func disturbNetwork(r *rand.Rand, p *netproxy.Proxy) {
	switch r.IntN(7) {
	case 0:
		p.Cut()
	case 1:
		p.CutUp()
	case 2:
		p.CutDown()
	case 3:
		p.Reset()
	case 4:
		p.Delay(netproxy.Down, time.Duration(r.IntN(1500))*time.Millisecond)
	case 5:
		p.DropHeld()
	default:
		p.Delay(netproxy.Down, 0)
		p.Heal()
	}
}

func healNetworks(workers []networked) {
	for _, w := range workers {
		w.proxy.Delay(netproxy.Down, 0)
		w.proxy.Heal()
	}
}

// endAll ends the workers, and reports what they found wrong.
func endAll(t *testing.T, workers []networked) {
	t.Helper()
	for _, w := range workers {
		w.Send("end")
		var wrong string
		if w.Recv(&wrong); wrong != "" {
			t.Error(wrong)
		}
	}
}

// toldToEnd returns a channel that is closed when a worker is told to end.
func toldToEnd(ctx context.Context, io *proc.IO) <-chan struct{} {
	ending := make(chan struct{})
	go func() {
		var word string
		if io.Recv(ctx, &word) == nil {
			close(ending)
		}
	}()
	return ending
}
