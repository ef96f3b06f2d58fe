package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
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
	DefaultTTL  = 10 * time.Second
	MinTTL      = time.Second
	MaxTTL      = 24 * time.Hour
	MaxIdentity = 255 // bytes

	AttemptsPerTTL = 4  // an attempt of a request or a renewal is given up after TTL/4
	retriesPerTTL  = 80 // without a connection the next renewal follows after about TTL/80
	marginsPerTTL  = 10 // the loss clock's margin is TTL/10, and the driver's slack on top

	suspendedPerTTL = 4 // suspended is a session without an acknowledged renewal for TTL/4
)

// Config is the configuration of a client. Package coordinator documents its
// options.
type Config struct {
	TTL       time.Duration
	Identity  string
	Log       *slog.Logger
	Observers []event.Observer
	Jitter    float64 // varies the pauses between attempts by ± this share; for tests
	// Source makes the source of the pause of a call with this context. Nil is
	// the process's generator. Only a simulation sets it, which must be the
	// same again.
	Source func(context.Context) rand.Source

	wall func() time.Time // the wall clock; nil for time.Now
}

// Option changes a default of a Client.
type Option func(*Config)

func newConfig(opts []Option) (Config, error) {
	host, _ := os.Hostname() // an empty host is still a usable identity
	c := Config{
		TTL:      DefaultTTL,
		Identity: host + "/" + strconv.Itoa(os.Getpid()),
		Log:      slog.Default(),
		Jitter:   0.5,
	}
	for _, o := range opts {
		if o == nil {
			return c, Invalid("nil option")
		}
		o(&c)
	}
	return c, c.check()
}

func (c *Config) check() error {
	switch {
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return Invalid("ttl %v is not between %v and %v", c.TTL, MinTTL, MaxTTL)
	case c.Log == nil:
		return Invalid("nil logger")
	case slices.Contains(c.Observers, nil):
		return Invalid("nil observer")
	}
	return CheckIdentity(c.Identity)
}

// CheckIdentity reports whether id can be shown in listings.
func CheckIdentity(id string) error {
	if id == "" || len(id) > MaxIdentity {
		return Invalid("identity %.20q has %d bytes; 1 to %d are allowed", id, len(id), MaxIdentity)
	}
	for _, r := range id {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return Invalid("identity %q has a control character or is not UTF-8", id)
		}
	}
	return nil
}

// longestPause is short enough to finish clean-up within a second of the
// service's return.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	mostAway      = 400 * time.Millisecond // between renewals that get no answer
)

// pauses returns the pauses between attempts while the service is unavailable.
func (c *Config) pauses(longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(shortestPause),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(c.Jitter),
		backoff.WithMaxElapsedTime(0),
	)
}

// retry calls op until it does not return ErrUnavailable, or ctx or life ends.
// It returns op's last error, and calls notify before each pause.
func (c *Config) retry(ctx, life context.Context, op func() error, notify func(error)) error {
	var pauses *backoff.ExponentialBackOff
	for {
		err := op()
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || life.Err() != nil {
			return err
		}
		notify(err)
		if pauses == nil { // the first attempt nearly always succeeds
			pauses = c.pauses(longestPause)
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
