package election

import (
	"fmt"
	"math"
	"time"

	"github.com/baton-go/baton/recipes"
)

// Forever is the bound of [WithDrain] that never passes.
const Forever time.Duration = -1

// RunOption changes a default of Run.
type RunOption func(*runConfig)

type runConfig struct {
	value            []byte
	drain, progress  time.Duration
	priority         int
	prefers          bool // WithPriority
	settle           time.Duration
	onOverrun        func()
	onError          func(error)
	health           *Health
	initial, longest time.Duration
}

// WithValue sets the value of each campaign. The default is empty.
func WithValue(value []byte) RunOption {
	return func(c *runConfig) { c.value = append([]byte(nil), value...) }
}

// WithDrain sets how long Run waits for work whose context has ended: 30 s by
// default, or [Forever]. Then it resigns with ErrOverrun, and the old work may
// overlap with the next leader's; a tenth of the TTL after a loss it may, too.
func WithDrain(bound time.Duration) RunOption { return func(c *runConfig) { c.drain = bound } }

// WithOnOverrun makes Run call f, before it resigns, when work has not returned
// by the bound of WithDrain, or a tenth of the TTL after a loss. f may end the
// process.
func WithOnOverrun(f func()) RunOption { return func(c *runConfig) { c.onOverrun = f } }

// WithProgress ends the context of work, with [ErrStalled], when it has not
// called [Term.Progress] for d; after the drain it is as an error of work.
func WithProgress(d time.Duration) RunOption { return func(c *runConfig) { c.progress = d } }

// WithOnError makes Run call f with each error after which it goes on, and with
// ErrUnavailable, from another goroutine, if a campaign has no answer for 10 s.
// Run makes one call at a time, and waits for it to go on.
func WithOnError(f func(error)) RunOption { return func(c *runConfig) { c.onError = f } }

// WithHealth makes Run update h. Do not give h to two Runs at the same time.
func WithHealth(h *Health) RunOption { return func(c *runConfig) { c.health = h } }

// WithPriority makes a leader transfer to one of a higher priority, 0 to a
// million, that has waited for the time of WithSettle. All candidates need it.
func WithPriority(n int) RunOption {
	return func(c *runConfig) { c.priority, c.prefers = n, true }
}

// WithSettle sets how long it must have waited: 30 s by default.
func WithSettle(d time.Duration) RunOption { return func(c *runConfig) { c.settle = d } }

// WithPause sets the pause before Run campaigns again, ± 50 %. It doubles from
// initial (default 100 ms) to longest (10 s), and begins anew after a wait in
// the queue and a term of longest together.
func WithPause(initial, longest time.Duration) RunOption {
	return func(c *runConfig) { c.initial, c.longest = initial, longest }
}

// mostPause has room for the 50 % that are added: a longer pause would
// overflow, and be none.
const mostPause = math.MaxInt64 / 2

func newRunConfig(name string, opts []RunOption) (runConfig, error) {
	c := runConfig{
		drain:     30 * time.Second,
		settle:    30 * time.Second,
		onOverrun: func() {}, onError: func(error) {},
		health:  new(Health),
		initial: 100 * time.Millisecond, longest: 10 * time.Second,
	}
	for _, o := range opts {
		if o == nil {
			return c, invalid("run", name, "nil option")
		}
		o(&c)
	}
	var broken string
	switch {
	case len(c.value) > recipes.MaxPayload:
		broken = fmt.Sprintf("value has %d bytes; at most %d are allowed",
			len(c.value), recipes.MaxPayload)
	case c.drain <= 0 && c.drain != Forever:
		broken = fmt.Sprintf("drain of %v; want more than 0, or Forever", c.drain)
	case c.progress < 0 || c.progress > 0 && c.progress < time.Millisecond: // a unit was forgotten
		broken = fmt.Sprintf("%v without progress; want 0 for no bound, or at least 1ms", c.progress)
	case c.priority < 0 || c.priority > maxPriority:
		broken = fmt.Sprintf("priority %d; want 0 to %d", c.priority, maxPriority)
	case c.settle < time.Millisecond:
		broken = fmt.Sprintf("settling for %v; want at least 1ms", c.settle)
	case c.onOverrun == nil:
		broken = "nil function for overruns"
	case c.onError == nil:
		broken = "nil function for errors"
	case c.health == nil:
		broken = "nil health"
	case c.initial <= 0 || c.longest < c.initial:
		broken = fmt.Sprintf("pauses from %v to %v; want 0 < initial <= longest",
			c.initial, c.longest)
	default:
		c.initial, c.longest = min(c.initial, mostPause), min(c.longest, mostPause)
		return c, nil
	}
	return c, invalid("run", name, broken)
}
