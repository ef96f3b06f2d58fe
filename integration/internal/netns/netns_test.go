package netns_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/netns"
	"github.com/baton-go/baton/integration/internal/servers"
)

// variable has the address at which a process of this binary listens and prints
// the datagrams that it receives. It listens for connections, too.
const variable = "BATON_NETNS_LISTEN"

func TestMain(m *testing.M) {
	if addr := os.Getenv(variable); addr != "" {
		fmt.Fprintln(os.Stderr, listen(addr))
		os.Exit(1)
	}
	servers.Main(m)
}

func listen(addr string) error {
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	fmt.Println("ready")
	for b := make([]byte, 100); ; {
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", b[:n])
	}
}

// outside is the test process, beside the hosts 0 and 1.
const outside = 2

// party has two hosts and the test process, each with a listener. They send
// datagrams: a connection needs both directions, and could not show which one
// is cut.
type party struct {
	t     *testing.T
	w     *netns.Network
	addrs []string
	heard []chan string
	said  int
}

func newParty(t *testing.T) *party {
	w := netns.New(t, 2)
	p := &party{t: t, w: w, addrs: append(w.Hosts(), "10.77.0.254")}
	for at := range p.addrs {
		p.heard = append(p.heard, make(chan string, 1000))
		p.listen(at)
	}
	return p
}

// on makes a command run on one of the three.
func (p *party) on(at int, cmd *exec.Cmd) *exec.Cmd {
	if at != outside {
		p.w.Wrap(at, cmd)
	}
	return cmd
}

func (p *party) listen(at int) {
	p.t.Helper()
	program, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.on(at, exec.Command(program))
	cmd.Env = append(os.Environ(), variable+"="+p.addrs[at]+":7777")
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	listener, err := child.Start(cmd)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { listener.Kill(); _ = r.Close() })
	_ = w.Close()
	heard := p.heard[at]
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			heard <- lines.Text()
		}
	}()
	if !p.hears(at, "ready", 30*time.Second) {
		p.t.Fatalf("no listener at %s", p.addrs[at])
	}
}

// hears waits until a listener receives the text; it skips earlier datagrams.
func (p *party) hears(at int, text string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	for {
		select {
		case heard := <-p.heard[at]:
			if heard == text {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// reaches reports whether one of several datagrams arrives.
func (p *party) reaches(from, to, tries int) bool {
	for range tries {
		p.said++
		text := fmt.Sprint("message ", p.said)
		say := p.on(from, exec.Command("bash", "-c", fmt.Sprintf("echo -n '%s' >/dev/udp/%s/7777", text, p.addrs[to])))
		_ = say.Run() // fails where the sender's own routes drop it
		if p.hears(to, text, 250*time.Millisecond) {
			return true
		}
	}
	return false
}

// check tries all links. Links in cut must carry nothing; the others may need
// several tries: bridge and neighbours take a moment, and datagrams may be
// lost.
func (p *party) check(when string, cut ...[2]int) {
	p.t.Helper()
	isCut := map[[2]int]bool{}
	for _, link := range cut {
		isCut[link] = true
	}
	for _, link := range [][2]int{{0, 1}, {1, 0}, {0, outside}, {outside, 0}} {
		switch from, to := link[0], link[1]; {
		case isCut[link] && p.reaches(from, to, 3):
			p.t.Errorf("%s: %s reaches %s", when, p.addrs[from], p.addrs[to])
		case !isCut[link] && !p.reaches(from, to, 100):
			p.t.Errorf("%s: %s does not reach %s", when, p.addrs[from], p.addrs[to])
		}
	}
}

func TestLinksAreCutInOneDirectionOrBoth(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	p := newParty(t)
	there, back := [2]int{0, 1}, [2]int{1, 0}
	p.check("at first")
	p.w.Mute(0)
	p.check("muted", there)
	p.w.Unmute(0)
	p.check("not muted any more")
	p.w.Deafen(0)
	p.check("deafened", back)
	p.w.Undeafen(0)
	p.check("not deafened any more")
	p.w.Isolate(0)
	p.check("isolated", there, back)
	p.w.Rejoin(0)
	p.check("rejoined")
	p.w.Unplug(0)
	p.check("unplugged", there, back, [2]int{0, outside}, [2]int{outside, 0})
	p.w.Plug(0)
	p.check("plugged in again")
}

func TestPacketsAreSwallowedRefusedOrLost(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	p := newParty(t)
	p.w.CanFilter()
	there, back := [2]int{0, 1}, [2]int{1, 0}
	out, in := [2]int{0, outside}, [2]int{outside, 0}
	p.w.Swallow(0)
	p.check("swallowed", there, back, out, in)
	p.w.Restore(0)
	p.check("restored")
	p.w.Hide(0)
	p.check("hidden", out, in)
	p.w.Lose(99, 0)
	if p.reaches(0, 1, 3) && p.reaches(1, 0, 3) {
		t.Error("nearly all packets are lost, and a few tries reach both sides")
	}
	p.w.Lose(20, 0)
	p.check("some packets lost")
	p.w.Restore(0)
	if err := p.dial(0, 30*time.Second); err != nil {
		t.Errorf("dial: %v", err)
	}
	p.w.Refuse(0)
	p.check("refused: datagrams pass")
	if err := p.dial(0, 30*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: dial: %v", err)
	}
	p.w.Swallow(0)
	var silence net.Error
	if err := p.dial(0, 500*time.Millisecond); !errors.As(err, &silence) || !silence.Timeout() {
		t.Errorf("swallowed: dial: %v", err)
	}
	p.w.Restore(0)
}

// dial connects from the test process to a host.
func (p *party) dial(to int, within time.Duration) error {
	conn, err := net.DialTimeout("tcp", p.addrs[to]+":7777", within)
	if err == nil {
		_ = conn.Close()
	}
	return err
}
