package coordinator

import (
	"log/slog"
	"time"

	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Defaults and limits. MaxName is in bytes.
const (
	DefaultTTL = engine.DefaultTTL // 10 s
	MinTTL     = engine.MinTTL     // 1 s
	MaxTTL     = engine.MaxTTL     // 24 h
	MaxName    = engine.MaxName    // 255
)

// Option configures a Client.
type Option = engine.Option

// WithTTL sets how long the service keeps the session of a silent client.
// Others wait that long after a crash. At 10 s holds survive an outage of the
// service of 7.5 s on etcd, 4.5 s or more on ZooKeeper: see docs/ttl.md.
func WithTTL(ttl time.Duration) Option { return func(c *engine.Config) { c.TTL = ttl } }

// WithIdentity sets the name that Contenders and `baton inspect` show for this
// client: 1 to 255 bytes, no control characters. The default is "host/pid".
func WithIdentity(id string) Option { return func(c *engine.Config) { c.Identity = id } }

// WithLogger sets the logger, by default slog.Default(). Baton calls its
// handler from one goroutine per client, and no call waits for it: a handler
// that blocks, for instance on a full pipe, delays only the lines behind. Of
// more than some 16,000 waiting lines the newest are dropped and counted. Close
// waits until all lines are written or its context ends. If the handler panics,
// the process crashes.
func WithLogger(l *slog.Logger) Option { return func(c *engine.Config) { c.Log = l } }

// WithObserver notifies o of events: see [event.Observer] on when. It may be
// given several times.
func WithObserver(o event.Observer) Option {
	return func(c *engine.Config) { c.Observers = append(c.Observers, o) }
}

// CheckName returns an ErrInvalid unless name is 1 to 255 bytes of UTF-8
// without control characters, in segments separated by "/". Each segment has a
// visible character and is not "." or "..", and the first is not "zookeeper".
// "a" and "a/b" do not exclude each other, nor do a mutex and a semaphore of
// one name.
func CheckName(name string) error { return engine.CheckName(name) }
