package driver

import (
	"context"
	"fmt"
)

// Examiner is a Driver that can check the health of its service.
type Examiner interface {
	// Examine asks every known server of the service, and returns findings for
	// an operator to read. Failures are findings too. When ctx ends it returns
	// the findings so far. It leaves nothing behind.
	Examine(ctx context.Context) []Finding
}

// Finding is one observation about a service.
type Finding struct {
	Grade Grade  `json:"grade"`
	About string `json:"about"` // "server 10.0.0.1:2379", "TTL", "clock"
	Text  string `json:"text"`
	// Advice says what to do about it, if that is known.
	Advice string `json:"advice,omitempty"`
}

// Grade is the severity of a finding.
type Grade int

// The grades, from good to bad.
const (
	Fine    Grade = iota // as it should be
	Note                 // could not be determined, or is worth knowing
	Warning              // works now, but perhaps not for long or not as expected
	Failure              // does not work
)

var grades = [...]string{Fine: "ok", Note: "note", Warning: "warning", Failure: "failure"}

func (g Grade) String() string {
	if g < 0 || int(g) >= len(grades) {
		return fmt.Sprintf("Grade(%d)", int(g))
	}
	return grades[g]
}

// MarshalText returns what String returns.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// Found returns a finding.
func Found(g Grade, about, format string, args ...any) Finding {
	return Finding{Grade: g, About: about, Text: fmt.Sprintf(format, args...)}
}

// So returns the finding with an advice.
func (f Finding) So(advice string) Finding {
	f.Advice = advice
	return f
}
