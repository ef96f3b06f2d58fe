package dial

import (
	"context"
	"math/rand/v2"
	"net"
)

// Options are how a driver connects. The zero value is the usual way.
type Options struct {
	// Connect connects to an address whose host is an IP address. Nil is [TCP].
	Connect func(ctx context.Context, addr string) (net.Conn, error)

	// Source makes the source of a generator of pauses and orders. Nil is the
	// process's generator. Only a simulation sets it, which must be the same
	// again.
	Source func() rand.Source
}

// Random returns a new generator.
func (o *Options) Random() *rand.Rand {
	if o.Source == nil {
		return rand.New(process{})
	}
	return rand.New(o.Source())
}

// process is the process's generator.
type process struct{}

func (process) Uint64() uint64 { return rand.Uint64() }
