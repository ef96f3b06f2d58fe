package once

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// Run is the latest run of a key.
type Run struct {
	Key   string            `json:"key"`
	Token coordinator.Token `json:"token"`
	// Identity is that of the client, cut to 100 bytes.
	Identity string `json:"identity"`
	// Began and Ended are times of the client's clock. Ended is zero while the
	// run lasts, and for one that is over and not complete.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
}

// At returns the key of a time, such as 2026-11-28T03:00:00Z. Give it the time
// for which the run was scheduled, which is the same in all replicas. For a job
// that runs each hour after the start of the process, that is the hour:
// At(time.Now().Truncate(time.Hour)).
func At(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// timeOf returns the time of a key that At returns.
func timeOf(key string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, key)
	return t, err == nil && At(t) == key
}

const (
	maxKey      = 128
	maxIdentity = 100
)

func checkKey(key string) error {
	switch {
	case key == "" || len(key) > maxKey:
		return engine.Invalid("key %.20q has %d bytes; 1 to %d are allowed", key, len(key), maxKey)
	case !utf8.ValidString(key) || slices.ContainsFunc([]rune(key), unicode.IsControl):
		return engine.Invalid("key %q has a control character or is not UTF-8", key)
	}
	return nil
}

// state is a record, as JSON at the service.
type state struct {
	Runs []Run `json:"runs"` // in the order of their begins
	// Forgotten is the latest time of a key that was left out. Times must not
	// run again, and those up to this one cannot be told apart.
	Forgotten time.Time `json:"forgotten,omitzero"`

	version driver.Version
	latest  bool // it has all writes that any client finished before the read
}

func decode(r driver.Record) (s state, err error) {
	if r.Version == 0 {
		return s, nil
	}
	bad := json.Unmarshal(r.Value, &s)
	if bad != nil || s.Runs == nil || slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Key == "" }) {
		return state{}, fmt.Errorf("%w: the record at the name is not that of a once: %.80q",
			coordinator.ErrRefused, r.Value)
	}
	s.version = r.Version
	return s, nil
}

// encode does not escape <, > and &, so that the largest record fits.
func (s state) encode() []byte {
	if s.Runs == nil {
		s.Runs = []Run{} // else it would not be the record of a once
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // never fails for strings, and times of this millennium
	return bytes.TrimSpace(b.Bytes())
}

// find returns the run of a key, or nil.
func (s state) find(key string) *Run {
	if i := slices.IndexFunc(s.Runs, func(r Run) bool { return r.Key == key }); i >= 0 {
		return &s.Runs[i]
	}
	return nil
}

// over reports whether a run of the key is complete. The error is ErrForgotten
// if the record no longer shows that.
func (s state) over(key string) (bool, error) {
	if r := s.find(key); r != nil {
		return !r.Ended.IsZero(), nil
	}
	if t, ok := timeOf(key); ok && !s.Forgotten.IsZero() && !t.After(s.Forgotten) {
		return false, ErrForgotten
	}
	return false, nil
}

// put adds a run in place of an earlier one of its key, and leaves out others
// until the record has at most so many.
func (s *state) put(r Run, keep int) {
	if last := s.find(r.Key); last != nil && last.Token == r.Token {
		*last = r
		return
	}
	s.remove(r.Key)
	for len(s.Runs) >= keep {
		s.forget()
	}
	s.Runs = append(s.Runs, r)
}

func (s *state) remove(key string) {
	s.Runs = slices.DeleteFunc(s.Runs, func(r Run) bool { return r.Key == key })
}

// forget leaves out the run that began first. If its key is a time, it leaves
// out the earliest time: all up to that are refused from then on, and a later
// one may be wanted first.
func (s *state) forget() {
	victim := 0
	if first, ok := timeOf(s.Runs[0].Key); ok {
		for i, r := range s.Runs {
			if t, ok := timeOf(r.Key); ok && t.Before(first) {
				victim, first = i, t
			}
		}
		if first.After(s.Forgotten) {
			s.Forgotten = first
		}
	}
	s.Runs = slices.Delete(s.Runs, victim, victim+1)
}
