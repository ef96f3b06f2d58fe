package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Kind is the kind of hold that an attempt requests.
type Kind string

// The kinds. Grants of Read and Write on one name exclude each other, as do
// those of each other kind.
const (
	Mutex   Kind = "mutex"
	Read    Kind = "read"
	Write   Kind = "write"
	Permits Kind = "permits"
	Term    Kind = "term"
)

// Hold is the record of an attempt and its outcome. Times are Now's, and 0 if
// the event has not occurred.
type Hold struct {
	ID     string `json:"id"`
	Client string `json:"client"`
	Name   string `json:"name"`
	Kind   Kind   `json:"kind"`
	N      int    `json:"n"`
	Limit  int    `json:"limit"`
	Token  int64  `json:"token,omitempty"`

	Asked      int64 `json:"asked"`                // the call began
	Granted    int64 `json:"granted,omitempty"`    // it returned a hold, or
	FailedAt   int64 `json:"failed,omitempty"`     // an error
	Downgraded int64 `json:"downgraded,omitempty"` // from then on a Write is a Read
	Releasing  int64 `json:"releasing,omitempty"`  // the release was called
	Released   int64 `json:"released,omitempty"`   // it returned
	Ended      int64 `json:"ended,omitempty"`      // the hold's context was dead
	Told       int64 `json:"told,omitempty"`       // the end was noticed, if later

	Cause      string `json:"cause,omitempty"`       // of the context's end
	Error      string `json:"error,omitempty"`       // of the attempt
	ReleaseErr string `json:"release_err,omitempty"` // of the release
}

// Access is one read or write of a register.
type Access struct {
	Client   string `json:"client"`
	Name     string `json:"name"`
	Read     bool   `json:"read,omitempty"`
	Token    int64  `json:"token"` // sent to the register; 0: none
	Value    string `json:"value"`
	Begin    int64  `json:"begin"`
	End      int64  `json:"end"`
	Accepted bool   `json:"accepted,omitempty"`
}

// Injected is one fault. End is 0 while it lasts.
type Injected struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind"`
	Begin   int64    `json:"begin"`
	End     int64    `json:"end,omitempty"`
	Clients []string `json:"clients,omitempty"` // affected clients; empty: all
}

// Excused is a period in which a client's holds of a name are not checked.
type Excused struct {
	Client string `json:"client"`
	Name   string `json:"name,omitempty"` // empty: of all names
	Why    string `json:"why"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	// Before: only holds requested before this time. 0: all.
	Before int64 `json:"before,omitempty"`
}

// line is one line of an exported history. A later line of a hold or fault
// replaces an earlier one.
type line struct {
	Hold    *Hold     `json:"hold,omitempty"`
	Access  *Access   `json:"access,omitempty"`
	Fault   *Injected `json:"fault,omitempty"`
	Excused *Excused  `json:"excused,omitempty"`
}

// Load reads a history that a process has appended to a file. An incomplete
// last line, of a killed process, is not an error.
func Load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := New()
	for r, n := bufio.NewReader(f), 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		var l line
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			return nil, fmt.Errorf("history: %s, line %d: %w", path, n, err)
		}
		h.add(l)
	}
}

// Merge adds another history, which must not record any more.
func (h *History) Merge(other *History) {
	_ = other.each(func(l line) error { h.add(l); return nil })
}

// WriteTo writes the history so far as JSON lines.
func (h *History) WriteTo(w io.Writer) (int64, error) {
	e := json.NewEncoder(w)
	return 0, h.each(func(l line) error { return e.Encode(l) })
}

// AppendTo makes every further change be written to w at once, as one JSON line
// in one Write, so that it survives the process.
func (h *History) AppendTo(w io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out = json.NewEncoder(w)
}

func (h *History) each(f func(line) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs error
	for _, r := range h.holds {
		errs = errors.Join(errs, f(line{Hold: r}))
	}
	for i := range h.accesses {
		errs = errors.Join(errs, f(line{Access: &h.accesses[i]}))
	}
	for _, r := range h.faults {
		errs = errors.Join(errs, f(line{Fault: r}))
	}
	for i := range h.excused {
		errs = errors.Join(errs, f(line{Excused: &h.excused[i]}))
	}
	return errs
}

func (h *History) add(l line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case l.Hold != nil:
		if old := h.byID[l.Hold.ID]; old != nil {
			*old = *l.Hold
			return
		}
		c := *l.Hold
		h.byID[c.ID] = &c
		h.holds = append(h.holds, &c)
	case l.Access != nil:
		h.accesses = append(h.accesses, *l.Access)
	case l.Fault != nil:
		if old := h.faultByID[l.Fault.ID]; old != nil {
			*old = *l.Fault
			return
		}
		c := *l.Fault
		h.faultByID[c.ID] = &c
		h.faults = append(h.faults, &c)
	case l.Excused != nil:
		h.excused = append(h.excused, *l.Excused)
	}
}

// tell needs h.mu.
func (h *History) tell(l line) {
	if h.out != nil && h.err == nil {
		h.err = h.out.Encode(l)
	}
}
