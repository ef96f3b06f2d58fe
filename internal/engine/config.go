package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator/event"
)

// Defaults and limits.
const (
	DefaultTTL = 10 * time.Second
	MinTTL     = time.Second
	MaxTTL     = 24 * time.Hour

	// MaxIdentity is the length of the longest identity, in bytes.
	MaxIdentity = 255

	RenewalsPerTTL = 4  // a renewal is sent every TTL/4
	marginsPerTTL  = 10 // the loss clock's margin is TTL/10, and the driver's slack on top
)

// Option changes a default of a Client.
type Option func(*config)

type config struct {
	ttl       time.Duration
	identity  string
	log       *slog.Logger
	observers []event.Observer
	retry     Retry
	wall      func() time.Time // the wall clock, if it is another than that of time.Now
}

// WithTTL sets how long the service keeps the session of a client that has gone
// silent: 1 s to 24 h, 10 s by default. It is how long others wait after a
// crash, and it bounds how long an outage of the service may last so that no
// hold is lost, in the worst phase of the renewals: 0.55 of it on etcd and 0.3
// of it on ZooKeeper when connections are refused, 0.5 and 0.25 when requests
// vanish silently.
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.ttl = ttl } }

// WithIdentity sets who this client is in listings: "host/pid" by default.
func WithIdentity(id string) Option { return func(c *config) { c.identity = id } }

// WithLogger sets where the client logs: slog.Default() if it is not called.
// Logged at Warn: a lost hold (one that Close ends, too), one that lasts long
// if the recipe was told what long is, a suspended or lost session, a session
// that cannot be opened, once for each call that waits for it, a clean-up that
// fails, a conversion that is refused. At Info: a resumed session, a wait for a
// lock-delay. At Debug: sessions that are opened, and further attempts to.
// docs/observability.md lists every line.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithObserver has o told of events. Several may be given.
func WithObserver(o event.Observer) Option {
	return func(c *config) { c.observers = append(c.observers, o) }
}

// WithRetry sets the pauses between attempts.
func WithRetry(r Retry) Option { return func(c *config) { c.retry = r } }

func newConfig(opts []Option) (config, error) {
	host, _ := os.Hostname() // an empty host is still a usable identity
	c := config{
		ttl:      DefaultTTL,
		identity: host + "/" + strconv.Itoa(os.Getpid()),
		log:      slog.Default(),
	}
	for _, o := range opts {
		if o == nil {
			return c, invalid("nil option")
		}
		o(&c)
	}
	return c, c.check()
}

func (c *config) check() error {
	if c.ttl < MinTTL || c.ttl > MaxTTL {
		return invalid("ttl %v is not between %v and %v", c.ttl, MinTTL, MaxTTL)
	}
	if c.log == nil {
		return invalid("nil logger")
	}
	if slices.Contains(c.observers, nil) {
		return invalid("nil observer")
	}
	if err := CheckIdentity(c.identity); err != nil {
		return err
	}
	return c.retry.check()
}

// CheckIdentity reports whether id can be shown in listings: 1 to 255 bytes without
// control characters.
func CheckIdentity(id string) error {
	if id == "" || len(id) > MaxIdentity {
		return invalid("identity %.20q has %d bytes; 1 to %d are allowed", id, len(id), MaxIdentity)
	}
	for _, r := range id {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return invalid("identity %q has a control character or is not UTF-8", id)
		}
	}
	return nil
}

// Retry says how long to pause between attempts while the service is unavailable.
// The number of attempts is not limited: every call ends by its context or with its
// session. The zero value of a field means its default.
type Retry struct {
	// Initial is the first pause: 50 ms by default.
	Initial time.Duration
	// Max is the longest pause, before jitter: 500 ms by default, so that clean-up is done
	// within a second of the service's return.
	Max time.Duration
	// Jitter spreads each pause by ± this share of it, 0 to 1: 0.5 by default. Negative
	// means none, for tests in virtual time.
	Jitter float64
}

const (
	initialPause  = 50 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	defaultJitter = 0.5
)

func (r Retry) check() error {
	if r.Initial < 0 || r.Max < 0 || r.Jitter > 1 {
		return invalid("retry %+v: pauses must not be negative, and jitter at most 1", r)
	}
	if initial, longest := cmp.Or(r.Initial, initialPause), cmp.Or(r.Max, longestPause); initial > longest {
		return invalid("retry: initial pause %v is above the longest, %v", initial, longest)
	}
	return nil
}

// pauses returns a fresh sequence of pauses.
func (r Retry) pauses() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(cmp.Or(r.Initial, initialPause)),
		backoff.WithMaxInterval(cmp.Or(r.Max, longestPause)),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(max(0, cmp.Or(r.Jitter, defaultJitter))),
		backoff.WithMaxElapsedTime(0),
	)
}

// do calls op until it returns anything but ErrUnavailable, or ctx or life ends.
// It returns op's last error, and gives each error that is followed by a pause to
// notify.
func (r Retry) do(ctx, life context.Context, op func() error, notify func(error)) error {
	var pauses *backoff.ExponentialBackOff
	for {
		err := op()
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || life.Err() != nil {
			return err
		}
		notify(err)
		if pauses == nil { // nearly always the first attempt succeeds
			pauses = r.pauses()
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return err
		case <-life.Done():
			return err
		}
	}
}
