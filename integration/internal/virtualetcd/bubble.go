package virtualetcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/baton-go/baton/internal/dial"
)

// valCtxCh is a channel on which clientv3 waits and which never closes. Each
// bubble needs its own.
//
//go:linkname valCtxCh go.etcd.io/etcd/client/v3.valCtxCh
var valCtxCh chan struct{}

// firstPort is the port of the members of the first etcd. Those of the others
// have the same addresses, and the ports behind it.
const firstPort = 2379

// most is how many etcds a bubble can have.
const most = 10

// bubble is what the etcds of a process share. All of them are of one bubble.
var bubble struct {
	sync.Mutex
	etcds   [most]*Etcd // by number, nil where there is none
	restore func()      // of the process's dialer and names
}

// enter gives an etcd a number. The first one prepares the process.
func (e *Etcd) enter() error {
	bubble.Lock()
	defer bubble.Unlock()
	if bubble.etcds == [most]*Etcd{} {
		valCtxCh = make(chan struct{})
		dialer, names := dial.Replace(connect), dial.ReplaceNames(resolve)
		bubble.restore = func() { dialer(); names() }
	}
	for i, other := range bubble.etcds {
		if other == nil {
			e.number = i
			bubble.etcds[i] = e
			return nil
		}
	}
	return errors.New("too many etcds in a bubble")
}

// leave gives the number back. The last one restores the process.
func (e *Etcd) leave() {
	bubble.Lock()
	defer bubble.Unlock()
	if bubble.etcds[e.number] != e {
		return // closed before
	}
	bubble.etcds[e.number] = nil
	if bubble.etcds == [most]*Etcd{} {
		bubble.restore()
	}
}

// numbered returns an etcd of the bubble, or nil.
func numbered(n int) *Etcd {
	bubble.Lock()
	defer bubble.Unlock()
	if n < 0 || n >= most {
		return nil
	}
	return bubble.etcds[n]
}

// connect connects to an address of a link.
func connect(ctx context.Context, _, addr string) (net.Conn, error) {
	var net10, high, low, member, port int
	_, err := fmt.Sscanf(addr, "%d.%d.%d.%d:%d", &net10, &high, &low, &member, &port)
	if e := numbered(port - firstPort); err == nil && e != nil {
		return e.dial(ctx, net10, high<<8+low, member-1, addr)
	}
	return nil, noAddress(addr)
}

func noAddress(addr string) error {
	return &net.AddrError{Err: "no such address in the bubble", Addr: addr}
}

// hostNames are the names of a member for a client, counted from 1 and 0, and
// of an etcd.
const hostNames = "etcd%d.client%d.world%d"

// resolve is the name server.
func resolve(_ context.Context, host string) ([]string, error) {
	var member, link, number int
	_, err := fmt.Sscanf(host, hostNames, &member, &link, &number)
	if e := numbered(number); err == nil && e != nil {
		return e.resolve(link, member-1, host)
	}
	return nil, noHost(host)
}

func noHost(host string) error {
	return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
