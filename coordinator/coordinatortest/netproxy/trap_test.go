package netproxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

func TestLoseReplyAppliesTheRequestAndHidesTheReply(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	bystander, conn := dial(t, p), dial(t, p)
	send(t, conn, "a")
	expect(t, conn, "a")
	trap := p.LoseReply(netproxy.Any)
	send(t, conn, "b")
	if err := trap.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectReset(t, conn)
	if got := server.received(); got != "ab" {
		t.Fatalf("the server received %q, want the request too", got)
	}
	// Other and new connections work, and the trap is sprung only once.
	again := dial(t, p)
	send(t, bystander, "c")
	expect(t, bystander, "c")
	send(t, again, "d")
	expect(t, again, "d")
}

func TestLoseRequestNeverReachesTheServer(t *testing.T) {
	server, p, conn := linked(t, "a")
	trap := p.LoseRequest(netproxy.Any)
	send(t, conn, "b")
	if err := trap.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectReset(t, conn)
	until(t, "the server sees the end", func() bool { return len(server.endings()) == 1 })
	if got := server.received(); got != "a" {
		t.Fatalf("the server received %q", got)
	}
}

func TestHoldReplyDeliversAfterHeal(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	conn := dial(t, p)
	trap := p.HoldReply(netproxy.Any)
	send(t, conn, "a")
	if err := trap.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	silent(t, conn)
	if got := server.received(); got != "a" {
		t.Fatalf("the server received %q", got)
	}
	p.Heal()
	expect(t, conn, "a")
}

func TestDisarmedOrUnsprungTrapDoesNothing(t *testing.T) {
	p := startProxy(t, startEcho(t, "").addr())
	p.LoseReply(netproxy.Any).Disarm()
	p.LoseRequest(netproxy.Named("unheard of"))
	trap := p.LoseReply(netproxy.Named("unheard of"))
	conn := dial(t, p)
	send(t, conn, "a")
	expect(t, conn, "a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := trap.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait: %v", err)
	}
}

// The selected request may be lost with its connection; then the trap takes the
// next.
func TestTrapSelectsAgainWhenItsConnectionEnds(t *testing.T) {
	p := startProxy(t, startEcho(t, "").addr())
	first := dial(t, p)
	send(t, first, "a")
	expect(t, first, "a")
	trap := p.LoseReply(netproxy.Any)
	p.CutUp()
	send(t, first, "b")
	until(t, "the request is at the proxy", func() bool { return p.Stats().HeldUp == 1 })
	p.Reset()
	p.Heal()
	second := dial(t, p)
	send(t, second, "b")
	if err := trap.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectReset(t, second)
}
