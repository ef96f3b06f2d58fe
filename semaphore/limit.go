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

// ErrNoLimit means that no limit is stored at the name.
var ErrNoLimit = fmt.Errorf("%w: give a limit to New, or call SetLimit", recipes.ErrNoRecord)

// stored is the record of the queue.
type stored struct {
	Limit int `json:"limit"`
}

func (r stored) encode() []byte {
	b, _ := json.Marshal(r) // never fails for an integer
	return b
}

func (s *Semaphore) decode(record []byte) (int, error) {
	var r stored
	if err := json.Unmarshal(record, &r); err != nil || r.Limit < 1 || r.Limit > MaxLimit {
		return 0, fmt.Errorf("%w: the record at the name is not a limit: %q",
			coordinator.ErrRefused, record)
	}
	return r.Limit, nil
}

// terms are those of a contender for n permits. Its limit is compared when it
// joins. Later changes of the stored limit apply to it too.
//
// A SetLimit of this Semaphore changes the stored limit first, and then its
// own. Before and after they agree, so a call that overlaps with it joins by
// the stored limit.
func (s *Semaphore) terms(n int) *recipes.Terms {
	changes := s.changes.Load() // before the limit, and again after it was compared
	given := int(s.limit.Load())
	changing := func() bool { return changes%2 != 0 || s.changes.Load() != changes }
	t := &recipes.Terms{None: ErrNoLimit, Held: holdingMode(n), Counts: saysHeld,
		Mode: func(v driver.Version) string { return askingMode(n, v) }}
	if given != Stored {
		t.Initial = stored{given}.encode()
	} else if n := int(s.initial.Load()); n != 0 { // the record was deleted
		t.Initial = stored{n}.encode()
	}
	t.Rule = func(record driver.Record, joined bool) (recipes.Rule, error) {
		limit, err := s.decode(record.Value)
		switch {
		case err != nil:
			return nil, err
		case !joined && given != Stored && given != limit && !changing():
			return nil, &LimitError{Name: s.Name(), Asked: given, Stored: limit}
		case n > limit:
			return nil, fmt.Errorf("%w: %d permits exceed the limit of %d",
				coordinator.ErrInvalid, n, limit)
		}
		return permits(limit, record.Version, n), nil
	}
	return t
}

// LimitError means that the stored limit is not the limit given to New:
// errors.Is(err, coordinator.ErrInvalid) is true. The call was not queued.
type LimitError struct {
	Name          string
	Asked, Stored int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit of semaphore %q is %d, not %d:"+
		" change it with SetLimit, give New the limit Set(%d), or use the stored one", e.Name, e.Stored, e.Asked, e.Asked)
}

func (e *LimitError) Unwrap() error { return coordinator.ErrInvalid }

// Limit returns the stored limit, or [ErrNoLimit]. Curator's layout stores
// none: then it returns the limit given to New.
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	if s.locks != nil {
		n, err := s.sharedLimit(ctx)
		return n, recipes.Describe(ctx, "limit", s.Name(), err)
	}
	n, err := s.storedLimit(ctx)
	if err == nil && n == 0 {
		err = ErrNoLimit
	}
	return n, recipes.Describe(ctx, "limit", s.Name(), err)
}

// storedLimit returns 0 if no limit is stored.
func (s *Semaphore) storedLimit(ctx context.Context) (int, error) {
	r, err := s.queue.Record(ctx)
	if err != nil || r.Version == 0 {
		return 0, err
	}
	return s.decode(r.Value)
}

// SetLimit stores a limit from 1 to [MaxLimit], which this Semaphore then uses.
// A higher limit admits waiters within a quarter of a second. Calls that wait
// for more than the new limit get ErrInvalid; the others go on waiting. A
// Semaphore made with another number returns a [*LimitError] from its next
// Acquire. After coordinator.ErrUnavailable the limit may be stored; repeat the
// call. Concurrent calls run one after the other. An Acquire of this Semaphore
// that overlaps with the call may join by either limit.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if err := check(s.Name(), "limit", limit, MaxLimit); err != nil {
		return err
	}
	if s.locks != nil {
		return s.notShared("set-limit", "they may still use the old limit")
	}
	if err := enter(ctx, s.setting); err != nil {
		return err
	}
	defer func() { <-s.setting }()
	return recipes.Describe(ctx, "set-limit", s.Name(), s.store(ctx, limit))
}

// storeInitial stores the limit of Set, unless another call has.
func (s *Semaphore) storeInitial(ctx context.Context) error {
	if err := enter(ctx, s.setting); err != nil {
		return err
	}
	defer func() { <-s.setting }()
	if !s.unset.Load() {
		return nil
	}
	return s.store(ctx, int(s.initial.Load()))
}

// store stores a limit. The caller holds setting.
func (s *Semaphore) store(ctx context.Context, limit int) error {
	s.changes.Add(1)
	defer s.changes.Add(1)
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
			if s.initial.Load() != 0 {
				s.initial.Store(int64(limit))
				s.unset.Store(false)
			}
			return nil
		case !recipes.Overtaken(ctx, err):
			return err
		}
	}
}
