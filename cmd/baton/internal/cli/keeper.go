package cli

import (
	"context"
	"os"
	"time"
)

// guarded is a command that runs: a *ward.Ward.
type guarded interface {
	Done() <-chan struct{}
	Signal(os.Signal)
	Terminate()
	Kill() error
	Extend(deadline time.Time) error
	Code() int
}

// keeper stands between a hold and the command that runs under it.
type keeper struct {
	hold    hold
	ward    guarded
	grace   time.Duration
	runOn   bool
	signals <-chan os.Signal
	renewed <-chan struct{}
	say     func(format string, args ...any)

	told bool        // the command was told to end
	dead bool        // it was killed
	warn *time.Timer // for the SIGTERM
	kill *time.Timer // for the SIGKILL
}

// keep returns when the command has ended, and whether it was the hold that ended it.
//
// It tells it at the deadline less the grace, unless a renewal has moved that.
// The warden has the deadline, too: should this process be stopped or killed,
// it kills in its place. Once told, the command keeps the deadline of then,
// whatever comes: half an end helps nobody.
func (k *keeper) keep() (ended bool) {
	k.kill = time.NewTimer(time.Hour)
	k.kill.Stop()
	k.warn = time.NewTimer(time.Until(k.hold.Deadline()) - k.grace)
	if k.runOn {
		k.warn.Stop()
	}
	defer k.warn.Stop()
	defer k.kill.Stop()
	over := k.hold.Context().Done()
	for {
		select {
		case <-k.ward.Done():
			return k.told || k.killed()
		case sig := <-k.signals:
			k.ward.Signal(sig)
		case <-k.renewed:
			k.extend()
		case <-k.warn.C:
			k.doubt()
		case <-over:
			over = nil
			k.lost()
		case <-k.kill.C:
			k.end()
		}
	}
}

// extend tells the warden the new deadline.
func (k *keeper) extend() {
	if k.runOn || k.told {
		return
	}
	if err := k.ward.Extend(k.hold.Deadline()); err != nil {
		k.say("the process that guards the command cannot be told that the hold goes on (%v): the command may be killed, or live on if this process is killed", err)
	}
}

// doubt is called when the deadline is near.
func (k *keeper) doubt() {
	left := time.Until(k.hold.Deadline())
	switch {
	case left > k.grace:
		k.warn.Reset(left - k.grace)
	case left > 0:
		k.tell(left) // before it is said: whoever reads that may be slow
		k.say("the service does not answer and the hold is lost in %v: the command is told to end", left.Round(time.Millisecond))
	default:
		k.lost()
	}
}

// lost is called when the hold is over.
func (k *keeper) lost() {
	cause := context.Cause(k.hold.Context())
	if cause == nil {
		cause = k.hold.Err() // it looks at the clock
	}
	left := until(k.hold.Deadline())
	switch {
	case k.runOn:
		k.say("the hold is lost, and the command runs on: %v", cause)
	case k.told && left > 0: // told already, and the SIGKILL will come
	case left <= 0 || k.grace == 0:
		told := k.told
		k.told = true
		k.end()
		if !told {
			k.say("the hold is lost and the command is killed: %v", cause)
		}
	default:
		k.tell(min(left, k.grace))
		k.say("the hold is lost and the command is told to end; others may hold meanwhile: %v", cause)
	}
}

// tell asks the command to end within so long.
func (k *keeper) tell(within time.Duration) {
	k.told = true
	k.kill.Reset(within)
	k.ward.Terminate()
}

// end kills the command, once.
func (k *keeper) end() {
	if !k.dead {
		k.dead = true
		if err := k.ward.Kill(); err != nil {
			k.say("the command cannot be killed, and runs on without the hold: %v", err)
		}
	}
}

// killed tells whether the warden has killed the command, while this process was stopped.
func (k *keeper) killed() bool {
	if k.runOn || k.ward.Code() != exitSignal+sigkill || k.hold.Err() == nil {
		return false
	}
	k.say("the hold was lost and the command was killed: %v", context.Cause(k.hold.Context()))
	return true
}

const sigkill = 9

// until is how long it is to a moment, also by the wall clock: the other one
// stands still while the machine sleeps.
func until(t time.Time) time.Duration {
	return min(time.Until(t), t.Round(0).Sub(time.Now().Round(0)))
}
