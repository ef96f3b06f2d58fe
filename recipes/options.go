package recipes

import (
	"github.com/baton-go/baton/coordinator"
)

// Option changes a default of a recipe.
type Option func(*options)

type options struct {
	identity string
	payload  []byte
}

// WithIdentity sets who holds or waits in listings: the client's identity by default.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithPayload adds up to MaxPayload bytes to what listings show of the holder or waiter.
func WithPayload(b []byte) Option { return func(o *options) { o.payload = b } }

// LineFor returns the line of a recipe's kind and a name, for a recipe that takes these options. It does no I/O.
func LineFor(c *coordinator.Client, kind, name string, opts []Option) (*Line, error) {
	var set options
	for _, o := range opts {
		if o == nil {
			return nil, invalid("nil option for %s %q", kind, name)
		}
		o(&set)
	}
	return NewLine(c, kind, name, set.identity, set.payload)
}
