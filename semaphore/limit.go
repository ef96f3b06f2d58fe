package semaphore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// ErrNoLimit says that no limit is stored at the name.
var ErrNoLimit = fmt.Errorf("%w: give a limit to New, or call SetLimit", recipes.ErrNoRecord)

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

// terms are what a contender for n permits asks for: the limit that the caller
// has in mind counts when it joins; a change while it waits is for it, too.
func (s *Semaphore) terms(n int) *recipes.Terms {
	believed := int(s.limit.Load())
	t := &recipes.Terms{None: ErrNoLimit, Held: holdingMode(n), Counts: saysHeld,
		Mode: func(v driver.Version) string { return askingMode(n, v) }}
	if believed != Stored {
		t.Initial = stored{believed}.encode()
	}
	t.Rule = func(record driver.Record, joined bool) (recipes.Rule, error) {
		limit, err := s.decode(record.Value)
		switch {
		case err != nil:
			return nil, err
		case !joined && believed != Stored && believed != limit:
			return nil, &LimitError{Name: s.Name(), Asked: believed, Stored: limit}
		case n > limit:
			return nil, fmt.Errorf("%w: asks for %d permits of a limit of %d",
				coordinator.ErrInvalid, n, limit)
		}
		return permits(limit, record.Version, n), nil
	}
	return t
}

// LimitError says that the limit that is stored at the name is not the one that
// the caller has in mind. It is a coordinator.ErrInvalid. Nothing was changed.
type LimitError struct {
	Name          string
	Asked, Stored int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit of semaphore %q is %d, not %d:"+
		" change it with SetLimit or use the stored one", e.Name, e.Stored, e.Asked)
}

// Unwrap returns coordinator.ErrInvalid.
func (e *LimitError) Unwrap() error { return coordinator.ErrInvalid }

// Limit returns the limit that is stored at the name. When none is, the error
// is [ErrNoLimit].
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	if s.turns != nil {
		n, err := s.sharedLimit(ctx)
		return n, recipes.Describe(ctx, "limit", s.Name(), err)
	}
	n, err := s.storedLimit(ctx)
	if err == nil && n == 0 {
		err = ErrNoLimit
	}
	return n, recipes.Describe(ctx, "limit", s.Name(), err)
}

// storedLimit reads the limit, 0 if none is stored.
func (s *Semaphore) storedLimit(ctx context.Context) (int, error) {
	r, err := s.queue.Record(ctx)
	if err != nil || r.Version == 0 {
		return 0, err
	}
	return s.decode(r.Value)
}

// SetLimit stores another limit, 1 to [MaxLimit], and makes it the one that
// this Semaphore has in mind, unless that is [Stored]. Others who have the old
// one in mind get a [LimitError] from then on; those who wait already are not
// sent away, unless they wait for more than the new limit.
//
// Raising it admits waiters as soon as the holders ahead of them have held for
// a quarter of a second. Lowering it takes nothing from holders: nobody is
// admitted until what is held fits. The package comment has the two who may
// still be admitted beside more than fits after SetLimit has returned.
//
// When the error is coordinator.ErrUnavailable the limit may have been stored;
// calling again is safe. Calls on one Semaphore follow one another.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if err := check(s.Name(), "limit", limit, MaxLimit); err != nil {
		return err
	}
	if s.turns != nil {
		return s.notShared("set-limit", "its limit cannot be changed while others may have it in mind")
	}
	if err := enter(ctx, s.setting); err != nil {
		return err
	}
	defer func() { <-s.setting }()
	for {
		r, err := s.queue.Record(ctx)
		if value := (stored{limit}).encode(); err == nil && !bytes.Equal(r.Value, value) {
			err = s.queue.SetRecord(ctx, value, r.Version)
		}
		switch {
		case err == nil:
			if s.limit.Load() != Stored {
				s.limit.Store(int64(limit))
			}
			return nil
		case !recipes.Overtaken(ctx, err):
			return recipes.Describe(ctx, "set-limit", s.Name(), err)
		}
	}
}
