package recipes

import "time"

// Option changes a default of a recipe.
type Option func(*options)

type options struct {
	identity string
	payload  []byte
	delay    time.Duration
	delays   bool

	warnAfter, maxHold time.Duration // see WithHoldWarning and WithMaxHold
}

// WithIdentity sets who holds or waits in listings: the client's identity by default, and for an empty one.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithPayload adds up to MaxPayload bytes to what listings show of the holder or waiter.
func WithPayload(b []byte) Option { return func(o *options) { o.payload = b } }
