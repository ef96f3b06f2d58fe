package coordinator

import (
	"log/slog"
	"time"

	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Defaults and limits.
const (
	DefaultTTL = engine.DefaultTTL // 10 s
	MinTTL     = engine.MinTTL     // 1 s
	MaxTTL     = engine.MaxTTL     // 24 h

	// MaxName is the length of the longest name, in bytes: 255.
	MaxName = engine.MaxName
)

// Option changes a default of a Client.
type Option = engine.Option

// WithTTL sets how long the service keeps the session of a client that has gone
// silent: 1 s to 24 h, 10 s by default. It is how long others wait after a
// crash, and it bounds how long an outage of the service may last so that no
// hold is lost, in the worst phase of the renewals: 0.55 of it on etcd and 0.3
// of it on ZooKeeper when connections are refused, 0.5 and 0.25 when requests
// vanish silently.
func WithTTL(ttl time.Duration) Option { return func(c *engine.Config) { c.TTL = ttl } }

// WithIdentity sets who this client is in listings: "host/pid" by default. An
// identity is 1 to 255 bytes without control characters.
func WithIdentity(id string) Option { return func(c *engine.Config) { c.Identity = id } }

// WithLogger sets where the client logs: slog.Default() if it is not called.
// Logged at Warn: a lost hold (one that Close ends, too), one that lasts long
// if the recipe was told what long is, a suspended or lost session, a session
// that cannot be opened, once for each call that waits for it, a clean-up that
// fails, a conversion that is refused. At Info: a resumed session, a wait for a
// lock-delay. At Debug: sessions that are opened, and further attempts to.
// docs/observability.md lists every line.
func WithLogger(l *slog.Logger) Option { return func(c *engine.Config) { c.Log = l } }

// WithObserver notifies o of events. Several may be given.
func WithObserver(o event.Observer) Option {
	return func(c *engine.Config) { c.Observers = append(c.Observers, o) }
}

// CheckName reports, as an ErrInvalid that says which rule is broken, whether a
// name can be used for a lock, semaphore or election. A name is 1 to 255 bytes
// of UTF-8 in segments separated by "/", such as "orders/nightly report". No
// segment is empty, blank, "." or "..", the first is not "zookeeper", and there
// are no control characters. Names are compared byte by byte, and nest in name
// only: "a" and "a/b" are unrelated.
func CheckName(name string) error { return engine.CheckName(name) }
