package election

import (
	"fmt"
	"time"

	"github.com/baton-go/baton/recipes"
)

// Forever makes Run wait for its work without a bound, when it is given to
// WithDrain.
const Forever time.Duration = -1

// RunOption changes a default of Run.
type RunOption func(*runConfig)

type runConfig struct {
	value            []byte
	drain            time.Duration
	onOverrun        func()
	onError          func(error)
	health           *Health
	initial, longest time.Duration
}

// WithValue sets the value that each campaign of Run begins with; see Campaign.
// Work can change it with Term.Proclaim.
func WithValue(value []byte) RunOption {
	return func(c *runConfig) { c.value = append([]byte(nil), value...) }
}

// WithDrain bounds how long Run waits for work whose context has ended: 30 s if
// it is not called, [Forever] for no bound. Zero is refused.
//
// When ctx has ended, Run leads on until the work returns. When the bound
// passes before, it resigns, returns ErrOverrun, and leaves the goroutine of
// the work behind: the only overlap of two leaders' works in a planned
// hand-over.
//
// When the term was lost, the next leader may begin a tenth of the TTL later,
// or as soon as the service itself has ended the session, and from then on the
// works may overlap. Run still waits up to the bound: it must not run two works
// itself.
func WithDrain(bound time.Duration) RunOption { return func(c *runConfig) { c.drain = bound } }

// WithOnOverrun has f called when work has not returned in time: when the bound
// of WithDrain has passed, or, after the loss of the term, a tenth of the TTL,
// if that is sooner. It is called at most once in a term, and logged at Warn.
// An f that ends the process excludes an overlap in a planned hand-over, and
// ends it after a loss.
//
// Run calls f itself and waits for it, leading on meanwhile unless the term was
// lost. Work that has returned by then has ended as if it had been in time.
func WithOnOverrun(f func()) RunOption { return func(c *runConfig) { c.onOverrun = f } }

// WithOnError has f told of every error that Run survives: a campaign that
// failed or a term that was lost, before it pauses, and, once, a campaign that
// the service has not answered for ten seconds, which goes on (ErrUnavailable):
// then f is called in another goroutine. Calls do not overlap. Run waits for f,
// so f must return soon, and must not wait for Run; it may end ctx or close the
// client. A panic of f ends Run: as it is, or as a [*PanicError] from the other
// goroutine.
func WithOnError(f func(error)) RunOption { return func(c *runConfig) { c.onError = f } }

// WithHealth has Run keep h informed. One Health serves one Run at a time.
func WithHealth(h *Health) RunOption { return func(c *runConfig) { c.health = h } }

// WithPause sets how long Run pauses before it campaigns again: 100 ms at
// first, doubling up to 10 s, each time ± 50 %, and again the first after a
// campaign and term that together lasted as long as the longest pause.
func WithPause(initial, longest time.Duration) RunOption {
	return func(c *runConfig) { c.initial, c.longest = initial, longest }
}

func newRunConfig(name string, opts []RunOption) (runConfig, error) {
	c := runConfig{
		drain:     30 * time.Second,
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
		broken = fmt.Sprintf("drain of %v; want a positive time, or Forever", c.drain)
	case c.onOverrun == nil:
		broken = "nil function for overruns"
	case c.onError == nil:
		broken = "nil function for errors"
	case c.health == nil:
		broken = "nil health"
	case c.initial <= 0 || c.longest < c.initial:
		broken = fmt.Sprintf("pauses from %v to %v; want a positive one, and then one not below it",
			c.initial, c.longest)
	default:
		return c, nil
	}
	return c, invalid("run", name, broken)
}
