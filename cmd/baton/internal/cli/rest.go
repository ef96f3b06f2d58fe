package cli

import (
	"strings"
	"time"
)

// rest is what the command left running.
type rest struct {
	timer *time.Timer // fires when the next step is due
	step  restStep
	until time.Time // bounds the wait for processes that cannot be seen
}

type restStep int

// The steps by which the rest is ended.
const (
	restRuns   restStep = iota + 1 // it may end by itself
	restAsked                      // it got SIGTERM
	restKilled                     // it got SIGKILL
)

// begin begins a step, unless a later one has begun.
func (r *rest) begin(step restStep, within time.Duration) {
	if r.step >= step {
		return
	}
	r.step, r.until = step, time.Now().Add(within+closing)
	r.timer.Reset(within)
}

// killed begins the last step if the command has ended.
func (r *rest) killed() {
	if r.step != 0 {
		r.begin(restKilled, closing)
	}
}

// beginRest is called when the command has ended. If the loss of the hold ended
// it, the rest got the same signals.
func (k *keeper) beginRest(lost bool) {
	switch {
	case !lost:
		k.ward.Spare()
		k.rest.begin(restRuns, k.grace)
	case k.killed: // and the guard goes on until nothing is left
		k.rest.begin(restKilled, closing)
	default: // the SIGKILL is due
		k.rest.step = restAsked
	}
}

// settles is the time after which the end of the last process is known.
const settles = 20 * time.Millisecond

// endRest begins the next step, and reports whether there is one.
func (k *keeper) endRest() bool {
	left := k.ward.Left()
	if len(left) == 0 && time.Now().Before(k.rest.until) {
		k.rest.timer.Reset(settles)
		return true
	}
	switch k.rest.step {
	case restRuns:
		k.rest.begin(restAsked, k.grace)
		k.ward.Terminate()
		k.say("%s ended and left processes running, which baton ends now: %s; "+
			"use setsid to start a process that is to outlive the command", k.name, some(left))
		return true
	case restAsked:
		k.rest.begin(restKilled, closing)
		_ = k.ward.Kill() // the next step shows the outcome
		return true
	}
	k.say("a process started by %s cannot be killed and runs on without the hold: %s", k.name, some(left))
	return false
}

// reportSpared names the processes that live on by themselves.
func (k *keeper) reportSpared() {
	if spared := k.ward.Spared(); len(spared) > 0 {
		k.say("%s left processes in sessions of their own, which run on without the hold: %s",
			k.name, some(spared))
	}
}

// some lists the first names.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		names = append(names[:most:most], "and others")
	}
	return strings.Join(names, ", ")
}
