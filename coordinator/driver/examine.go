package driver

import (
	"context"
	"fmt"
)

// Examiner is a Driver that can tell people how its service is, beyond what a
// session shows.
type Examiner interface {
	// Examine asks every server of the service that it knows. What cannot be
	// found out is a finding too, so there is no error; when ctx ends it
	// returns what it has. It leaves nothing behind, and is for people: nothing
	// depends on it.
	Examine(ctx context.Context) []Finding
}

// Finding is one thing that was found out about a service.
type Finding struct {
	Grade Grade  `json:"grade"`
	About string `json:"about"` // "server 10.0.0.1:2379", "TTL", "clock"
	Text  string `json:"text"`
	// Advice is what to do about it, if that is known.
	Advice string `json:"advice,omitempty"`
}

// Grade says how good or bad a finding is.
type Grade int

// The grades, from good to bad.
const (
	Fine    Grade = iota // as it should be
	Note                 // could not be found out, or is worth knowing
	Warning              // works now, and may not for long, or not as expected
	Failure              // does not work
)

var grades = [...]string{Fine: "ok", Note: "note", Warning: "warning", Failure: "failure"}

func (g Grade) String() string {
	if g < 0 || int(g) >= len(grades) {
		return fmt.Sprintf("Grade(%d)", int(g))
	}
	return grades[g]
}

// MarshalText writes what String does.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// Found makes a finding.
func Found(g Grade, about, format string, args ...any) Finding {
	return Finding{Grade: g, About: about, Text: fmt.Sprintf(format, args...)}
}

// So adds what to do about it.
func (f Finding) So(advice string) Finding {
	f.Advice = advice
	return f
}
