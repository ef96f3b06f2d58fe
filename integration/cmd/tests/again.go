package main

import (
	"regexp"
	"strings"
	"time"

	"github.com/baton-go/baton/integration/internal/stall"
)

// A test is run a second time only if all of this holds:
//
//   - each of its errors says that something did not happen in time;
//   - the machine stood still for longer than stallLeast while it ran.
//
// A test that saw two holders, a wrong token or anything else that is wrong
// whatever the time is never run again, nor is one that panicked or hung until
// the time limit of its package. A second failure is final. Each second run is
// listed at the end.

// These messages say that something did not happen in time: those of the
// helpers that wait for a condition, and those of contexts and connections.
var late = regexp.MustCompile(`not within |not in time|context deadline exceeded|i/o timeout|timed out`)

// A line of a test's output that t.Error or t.Log wrote.
var message = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: `)

// A failed test prints its servers' logs, and what it waited for; these are not
// its errors.
var remark = regexp.MustCompile(`server logs:|:\d+: waiting: `)

// failedOnTime reports whether output, the lines of a failed test, contains at
// least one error and none that is about anything but time. A message of t.Log
// looks like an error, so a test that logs something else is not run again: the
// doubtful case counts as a failure of logic.
func failedOnTime(output []string) bool {
	errors := 0
	for _, line := range output {
		if strings.HasPrefix(line, "panic: ") || strings.Contains(line, "DATA RACE") {
			return false
		}
		if !message.MatchString(line) || remark.MatchString(line) {
			continue
		}
		if !late.MatchString(line) {
			return false
		}
		errors++
	}
	return errors > 0
}

// mayRunAgain reports whether a failed test is one to run again, and how long
// the machine stood still meanwhile.
func mayRunAgain(f failure, stalls *stall.Record) (time.Duration, bool) {
	if f.test == "" || !failedOnTime(f.output) {
		return 0, false
	}
	return stalls.During(f.from, f.to)
}
