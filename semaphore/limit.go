package semaphore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// ErrNoLimit says that no limit is stored at the name, and none was given. It
// is recipes.ErrNoRecord, too.
var ErrNoLimit error = noLimit{}

type noLimit struct{}

func (noLimit) Error() string {
	return "no limit is stored at the name: give one to New, or call SetLimit"
}
func (noLimit) Unwrap() error { return recipes.ErrNoRecord }

// stored is the record of the queue.
type stored struct {
	Limit int `json:"limit"`
}

func (r stored) encode() []byte {
	b, _ := json.Marshal(r) // an integer always can be
	return b
}

func (s *Semaphore) decode(record []byte) (int, error) {
	var r stored
	if err := json.Unmarshal(record, &r); err != nil || r.Limit < 1 || r.Limit > MaxLimit {
		return 0, fmt.Errorf("%w: what is stored at the name is no limit: %q",
			coordinator.ErrRefused, record)
	}
	return r.Limit, nil
}

// asked is what contenders have in common who ask for so many permits of the same limit.
type asked struct {
	s           *Semaphore
	n, believed int
	terms       recipes.Terms
}

// asks is what a contender for n permits asks for. It is kept for the next one,
// who mostly asks for the same.
func (s *Semaphore) asks(n int) *asked {
	believed := int(s.limit.Load())
	if a := s.latest.Load(); a != nil && a.n == n && a.believed == believed {
		return a
	}
	a := &asked{s: s, n: n, believed: believed}
	a.terms = recipes.Terms{Rule: a.rule, None: ErrNoLimit, Held: holdingMode(n), Counts: saysHeld,
		Mode: func(v driver.Version) string { return askingMode(n, v) }}
	if believed != Stored {
		a.terms.Initial = stored{believed}.encode()
	}
	s.latest.Store(a)
	return a
}

// rule is the rule by a record. The limit that the caller has in mind counts
// when it joins; a change while it waits is for it, too.
func (a *asked) rule(record driver.Record, joined bool) (recipes.Rule, error) {
	limit, err := a.limit(record.Value)
	switch {
	case err != nil:
		return nil, err
	case !joined && a.believed != Stored && a.believed != limit:
		return nil, &LimitError{Name: a.s.Name(), Asked: a.believed, Stored: limit}
	case a.n > limit:
		return nil, fmt.Errorf("%w: asks for %d permits of a limit of %d",
			coordinator.ErrInvalid, a.n, limit)
	}
	return permits(limit, record.Version, a.n), nil
}

// limit reads a record. That of the limit in mind is known by its looks, as nearly always.
func (a *asked) limit(record []byte) (int, error) {
	if a.believed != Stored && bytes.Equal(record, a.terms.Initial) {
		return a.believed, nil
	}
	return a.s.decode(record)
}

// LimitError says that the limit that is stored at the name is not the one that
// the caller has in mind. It is a coordinator.ErrInvalid. Nothing was changed.
type LimitError struct {
	Name          string
	Asked, Stored int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit of semaphore %q is %d, not %d: change it with SetLimit or use the stored one", e.Name, e.Stored, e.Asked)
}

// Unwrap returns coordinator.ErrInvalid.
func (e *LimitError) Unwrap() error { return coordinator.ErrInvalid }

// Limit returns the limit that is stored at the name. When none is, the error is [ErrNoLimit].
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	if s.shared != nil {
		n, err := s.sharedLimit(ctx)
		return n, recipes.Describe(ctx, "limit", s.Name(), err)
	}
	r, err := s.queue.Record(ctx)
	if err == nil && r.Version == 0 {
		err = ErrNoLimit
	}
	if err != nil {
		return 0, recipes.Describe(ctx, "limit", s.Name(), err)
	}
	n, err := s.decode(r.Value)
	return n, recipes.Describe(ctx, "limit", s.Name(), err)
}

// SetLimit stores another limit, 1 to [MaxLimit], and makes it the one that
// this Semaphore has in mind, unless that is [Stored]. Others who have the old
// one in mind get a [LimitError] from then on; those who wait already are not
// sent away, unless they wait for more than the new limit.
//
// Raising it admits waiters as soon as the holders ahead of them have held for
// a quarter of a second. Lowering it takes nothing from holders: nobody is
// admitted until what is held fits. After SetLimit has returned, two can still
// be admitted beside more than fits: one who joined before and has not acted on
// its first look at the queue yet, by the old limit; and one who joined before
// and has waited, who does not count those behind it that joined by the same
// limit as it did, and have held for less than a quarter of a second.
//
// When the error is coordinator.ErrUnavailable the limit may have been stored;
// calling again is safe. Calls on one Semaphore follow one another.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if err := check(s.Name(), "limit", limit, MaxLimit); err != nil {
		return err
	}
	if s.shared != nil {
		return recipes.Describe(ctx, "set-limit", s.Name(), s.notShared("its limit cannot be changed while others may have it in mind"))
	}
	if err := enter(ctx, s.setting); err != nil {
		return err
	}
	defer func() { <-s.setting }()
	for {
		r, err := s.queue.Record(ctx)
		if err == nil && string(r.Value) != string(stored{limit}.encode()) {
			err = s.queue.SetRecord(ctx, stored{limit}.encode(), r.Version)
		}
		switch {
		case err == nil:
			if s.limit.Load() != Stored {
				s.limit.Store(int64(limit))
			}
			return nil
		case ctx.Err() != nil || !errors.Is(err, coordinator.ErrStale) && !coordinator.MayHaveApplied(err):
			return recipes.Describe(ctx, "set-limit", s.Name(), err)
		} // else somebody was faster, be it this very request: look again
	}
}
