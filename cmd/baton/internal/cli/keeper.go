package cli

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
)

// guarded is a running command: a *ward.Ward.
type guarded interface {
	Done() <-chan struct{}
	Gone() <-chan struct{}
	Spare()
	Left() []string
	Spared() []string
	Signal(os.Signal)
	Terminate()
	Kill() error
	Extend(deadline time.Time) error
	Code() int
}

// keeper ends the command when the hold under which it runs ends.
//
// The command gets SIGTERM one grace before the deadline, unless a renewal has
// moved the deadline, and SIGKILL at the deadline. A renewal after the SIGTERM
// does not move the deadline: a command that is half shut down is of no use.
// The guard process knows the deadline, too, and kills the command if this
// process is stopped or killed.
//
// The processes that the command left running are kept in the same way, since
// they may work under the hold. If nothing else ends them, they have a grace to
// end by themselves, as a process that drains a pipe does, then one after
// SIGTERM, and get SIGKILL.
type keeper struct {
	hold    hold
	ward    guarded
	name    string // the command's, for messages
	grace   time.Duration
	runOn   bool
	signals <-chan os.Signal
	renewed <-chan struct{}
	say     func(format string, args ...any) // does not block

	terminated bool        // the command got SIGTERM
	killed     bool        // the command got SIGKILL
	unguarded  bool        // the guard does not answer, and this was said
	got        os.Signal   // the last signal that asked to end
	asked      os.Signal   // the one that asked not to begin anew after a loss
	warn       *time.Timer // fires when the SIGTERM is due
	kill       *time.Timer // fires when the SIGKILL is due
	rest       rest
}

// keep waits for the end of the command and of what it left running, and
// reports whether the loss of the hold ended the command.
func (k *keeper) keep() (ended bool) {
	k.kill, k.rest.timer = stoppedTimer(), stoppedTimer()
	k.warn = time.NewTimer(time.Until(k.hold.Deadline()) - k.grace)
	if k.runOn {
		k.warn.Stop()
	}
	defer k.warn.Stop()
	defer k.kill.Stop()
	defer k.rest.timer.Stop()
	over, done, gone := k.hold.Context().Done(), k.ward.Done(), (<-chan struct{})(nil)
	for {
		select {
		case <-done:
			ended = k.terminated || k.killed || k.killedByGuard()
			if k.runOn {
				return ended
			}
			done, gone = nil, k.ward.Gone()
			k.beginRest(ended)
		case <-gone:
			k.reportSpared()
			return ended
		case <-k.rest.timer.C:
			if !k.endRest() {
				return ended
			}
		case sig := <-k.signals:
			k.pass(sig)
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

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// pass passes a signal on. While the loss of the hold ends the command, a
// signal that asks to end must also end this process, and SIGTERM always: its
// command may need longer to end than the hold lasts. Earlier, the others can
// have another meaning to the command.
func (k *keeper) pass(sig os.Signal) {
	if slices.Contains(ward.Ending, sig) {
		k.got = sig
		if k.terminated || k.killed || sig == syscall.SIGTERM {
			k.asked = sig
		}
	}
	k.ward.Signal(sig)
}

// extend sends the new deadline to the guard. Without a deadline it only
// continues a guard that was stopped.
func (k *keeper) extend() {
	if k.terminated || k.killed || k.rest.step == restKilled {
		return // the guard repeats the SIGKILL from the deadline on
	}
	if err := k.ward.Extend(k.hold.Deadline()); err != nil && !k.unguarded {
		k.unguarded = true // the next renewal would say the same
		k.say("%v: the command may be killed while the hold is valid, or run on if baton is killed",
			err)
	}
}

// doubt handles the warn timer. The deadline may have moved since it was set.
func (k *keeper) doubt() {
	left := time.Until(k.hold.Deadline())
	switch {
	case left > k.grace:
		k.warn.Reset(left - k.grace)
	case left > 0:
		k.terminate(left) // before the message: a reader of stderr may be slow
		k.say("the service does not answer and the hold will be lost in %v: the command got SIGTERM",
			left.Round(time.Millisecond))
	default:
		k.lost()
	}
}

// lost handles the end of the hold.
func (k *keeper) lost() {
	cause := context.Cause(k.hold.Context())
	if cause == nil {
		cause = k.hold.Err() // compares the deadline with the clock
	}
	left := until(k.hold.Deadline())
	switch {
	case k.killed: // as was said
	case k.runOn:
		k.say("the hold is lost, and the command runs on: %v", cause)
	case k.terminated && left > 0: // the SIGKILL will come
	case k.terminated:
		k.end()
	case left <= 0 || k.grace == 0:
		k.end()
		k.say("the hold is lost and the command is killed: %v", cause)
	default:
		k.terminate(min(left, k.grace))
		k.say("the hold is lost and the command got SIGTERM; others may hold the name already: %v",
			cause)
	}
}

// terminate sends SIGTERM, and sets the timer for the SIGKILL.
func (k *keeper) terminate(within time.Duration) {
	k.terminated = true
	k.rest.timer.Stop() // the SIGKILL comes first
	k.kill.Reset(within)
	k.ward.Terminate()
}

// end kills the command, once.
func (k *keeper) end() {
	if k.killed {
		return
	}
	k.killed = true
	k.rest.killed()
	if err := k.ward.Kill(); err != nil {
		k.say("the command cannot be killed and runs on without the hold: %v", err)
	}
}

// killedByGuard reports whether the guard killed the command while this process
// was stopped.
func (k *keeper) killedByGuard() bool {
	const sigkill = 9
	if k.runOn || k.ward.Code() != exitSignal+sigkill || k.hold.Err() == nil {
		return false
	}
	k.killed = true
	k.say("the hold was lost and the command was killed: %v", context.Cause(k.hold.Context()))
	return true
}

// until returns the time left until t, by the clock that says less: the
// monotonic clock stands still while the machine sleeps.
func until(t time.Time) time.Duration {
	return min(time.Until(t), t.Round(0).Sub(time.Now().Round(0)))
}
