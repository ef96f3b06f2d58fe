package netns_test

import (
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/netns"
	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// ping asks one host from another, and tells whether an answer came.
func ping(w *netns.Network, from int, to string) bool {
	cmd := exec.Command("bash", "-c", "exec 3<>/dev/tcp/"+to+"/7777")
	w.Wrap(from, cmd)
	if err := cmd.Start(); err != nil {
		return false
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err == nil
	case <-time.After(500 * time.Millisecond):
		_ = cmd.Process.Kill()
		<-done
		return false
	}
}

func TestLinksAreCutInOneDirectionOrBoth(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	w := netns.New(t, 2)
	// The test process answers; the hosts' own links are tried with it as the other end, and between them.
	ln, err := net.Listen("tcp", "10.77.0.254:7777")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "here")
			_ = c.Close()
		}
	}()
	if !ping(w, 0, "10.77.0.254") {
		t.Fatal("a host does not reach the test")
	}
	w.Isolate(0)
	if !ping(w, 0, "10.77.0.254") {
		t.Error("an isolated host does not reach the test")
	}
	if ping(w, 0, w.Hosts()[1]) {
		t.Error("an isolated host reaches another")
	}
	w.Rejoin(0)
	w.Unplug(0)
	if ping(w, 0, "10.77.0.254") {
		t.Error("an unplugged host reaches the test")
	}
	w.Plug(0)
	for again := 0; !ping(w, 0, "10.77.0.254"); again++ { // bridge and neighbours take a moment
		if again == 20 {
			t.Fatal("a host that is plugged in again does not reach the test")
		}
	}
}
