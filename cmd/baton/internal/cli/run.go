package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/recipes"
)

// run is one invocation of a command that runs a command.
type run struct {
	*app
	flags    *runFlags
	kind, op string
	names    []string
	path     string
	argv     []string

	client  *coordinator.Client
	taker   taker
	signals <-chan os.Signal
	asked   os.Signal     // if not nil, it ends the campaigns
	renewed chan struct{} // receives after a renewal, which moves the deadline
}

// main runs the command under one hold, or, with --again, under consecutive
// ones.
func (r *run) main(ctx context.Context, open opener, opts []coordinator.Option) error {
	signals, stop := listen()
	defer stop()
	r.atEnd = survivePipes()
	defer ward.Reap()()
	if !r.flags.keepRunning {
		for _, note := range ward.Notes(r.path) {
			r.say("%s", note)
		}
	}
	r.signals, r.renewed = signals, make(chan struct{}, 1)
	c, err := r.open(append(opts, coordinator.WithObserver(event.ObserverFunc(r.observe)))...)
	if err != nil {
		return err
	}
	defer finish(c)
	r.client = c
	if r.taker, err = open(c, r.names); err != nil {
		return broken(err)
	}
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		began := time.Now()
		err := r.once(ctx)
		if !r.flags.again || !again(err) {
			return err
		}
		if cause := errors.Unwrap(err); cause != nil {
			r.say("%s", describe(cause))
		}
		if r.asked != nil {
			return (&signalError{r.asked.(syscall.Signal)}).exit()
		}
		r.say("%s again", map[bool]string{true: "joining", false: "campaigning"}[r.kind == "group"])
		if time.Since(began) > mostPause {
			pause = leastPause
		}
		if err := r.rest(ctx, pause); err != nil {
			return err
		}
	}
}

// The pauses between two campaigns.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// again reports whether another campaign can help: the hold was lost, or the
// service is unavailable. The exit code does not decide, since the command can
// return the same one.
func again(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && (exit.lost || exit.code == exitBroken && exit.err != nil) &&
		!errors.Is(err, ward.ErrUnguarded)
}

// rest waits. The error names the signal that ended the wait early.
func (r *run) rest(ctx context.Context, pause time.Duration) error {
	bound, stop := untilSignal(ctx, r.signals)
	select {
	case <-time.After(pause):
	case <-bound.Done():
	}
	stop() // it can receive a signal until then
	if sig := signalOf(bound); sig != nil {
		return sig.exit()
	}
	if ctx.Err() != nil {
		return broken(context.Cause(ctx))
	}
	return nil
}

func (r *run) observe(e event.Event) {
	if e.Kind == event.SessionRenewed {
		select {
		case r.renewed <- struct{}{}:
		default:
		}
	}
}

// once runs the command under one hold. The error has the exit code.
func (r *run) once(ctx context.Context) error {
	g, grace, err := r.take(ctx)
	if err != nil {
		return err
	}
	err = r.under(ctx, g, grace)
	r.release(ctx, g)
	return err
}

// release releases the hold. A failure is printed and does not change the exit
// code. A loss of the hold was printed before.
func (r *run) release(ctx context.Context, g *grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	err := g.release(ctx)
	lost := errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrRemoved)
	if err != nil && !lost {
		r.say("%s; the name becomes free when the session ends, at the latest after its TTL",
			strings.TrimPrefix(err.Error(), "baton: "))
	}
}

// under runs the command while g holds. The error has the command's exit code
// if it is not 0, or the reason why the command did not run.
func (r *run) under(ctx context.Context, g *grant, grace time.Duration) error {
	env, err := r.environ(ctx, g)
	if err != nil {
		return broken(err)
	}
	spec := ward.Spec{
		Path: r.path, Args: r.argv, Env: env, In: r.In, Out: r.Out, Err: r.Err,
		Title: r.op + " " + strings.Join(r.names, " "),
		Say:   func(message string) { r.say("%s", message) },
	}
	if !r.flags.keepRunning {
		spec.Deadline = g.Deadline()
	}
	if err := g.Err(); err != nil {
		return notStarted(err)
	}
	w, err := ward.Start(spec)
	switch {
	case errors.Is(err, ward.ErrUnguarded) && g.Err() != nil:
		return notStarted(g.Err())
	case errors.Is(err, ward.ErrUnguarded):
		return broken(err)
	case err != nil:
		return cannotRun(err)
	}
	defer w.Close()
	k := &keeper{
		hold: g, ward: w, name: r.argv[0], grace: grace, runOn: r.flags.keepRunning,
		signals: r.signals, renewed: r.renewed, say: r.say,
	}
	ended := k.keep()
	r.asked = k.asked
	if err := w.Err(); err != nil && !ended {
		return broken(err)
	}
	exit := &exitError{code: w.Code(), lost: ended}
	switch {
	case ended:
		exit.code = exitLost
	case exit.code == 0:
		return nil
	case w.Interrupted():
		exit.signal, exit.whole = os.Interrupt, true
	case k.got != nil && w.DiedOf(k.got):
		exit.signal = k.got
	}
	return exit
}

// notStarted is the error for a hold that was lost before the command started.
func notStarted(cause error) error {
	err := fmt.Errorf("the command was not started: %w", cause)
	return &exitError{code: exitLost, lost: true, err: err}
}

// environ returns the command's environment: baton's own and the hold's
// variables.
func (r *run) environ(ctx context.Context, g *grant) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	env := slices.DeleteFunc(r.Environ(), ofHold.MatchString)
	env = append(env,
		"BATON_URL="+r.service(),
		"BATON_KIND="+r.kind,
		"BATON_IDENTITY="+r.client.Identity(),
		"BATON_DEADLINE="+g.Deadline().Format(time.RFC3339Nano),
	)
	more, err := g.environ(ctx)
	return append(env, more...), err
}

// ofHold matches the variables that depend on the kind of the hold. An outer
// baton may have set some that this one does not set.
var ofHold = regexp.MustCompile(
	`^BATON_((NAME|TOKEN|SEQUENCER)(_[0-9]+)?|SESSION|PERMITS|SLOTS|VALUE)=`)

// take waits for the hold. It also returns the grace, which the session's TTL
// bounds.
func (r *run) take(ctx context.Context) (*grant, time.Duration, error) {
	ctx, stop := untilSignal(ctx, r.signals)
	defer stop()
	bound := ctx
	if r.flags.wait > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, r.flags.wait, errWaited)
		defer cancel()
		bound = limited
	}
	grace, err := r.grace(bound)
	if err != nil {
		stop()
		return nil, 0, r.notHeld(ctx, err)
	}
	var g *grant
	if r.flags.nonblock {
		brief, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
		defer cancel()
		g, err = r.taker.try(brief)
	} else {
		g, err = r.taker.wait(bound)
	}
	stop() // later signals are passed to the command; an earlier one must not be lost
	if err != nil {
		return nil, 0, r.notHeld(ctx, err)
	}
	if sig := signalOf(ctx); sig != nil {
		r.release(ctx, g)
		return nil, 0, sig.exit()
	}
	return g, grace, nil
}

var errWaited = errors.New("the time of --wait is over")

// notHeld returns the error for a hold that was not granted.
func (r *run) notHeld(ctx context.Context, err error) error {
	sig := signalOf(ctx)
	switch {
	case sig != nil:
		return sig.exit()
	case errors.Is(err, coordinator.ErrTaken):
		return &exitError{code: r.flags.conflict, err: err}
	case errors.Is(err, errWaited) && !errors.Is(err, coordinator.ErrUnavailable):
		return &exitError{code: r.flags.conflict, err: r.waited()}
	}
	return broken(err)
}

// waited returns a TakenError after a wait. It asks the service for the holder.
func (r *run) waited() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	taken := &recipes.TakenError{Op: r.op, Name: strings.Join(r.names, " ")}
	for _, name := range slices.Sorted(slices.Values(r.names)) { // usually as they are acquired
		queue, _ := readers[r.kind](ctx, r.client, name) // after an error no holder is named
		if len(queue.Contenders) == 0 {
			continue
		}
		first := queue.Contenders[0]
		taken.Name, taken.Holder = name, recipes.Contender{Identity: first.Identity,
			Token: first.Token, Stray: first.Stray}
		if first.Since != nil {
			taken.Holder.Since = *first.Since
		}
		break
	}
	return fmt.Errorf("%w; waited for %v", taken, r.flags.wait)
}

// grace returns the time from the SIGTERM to the deadline. It opens the
// session, since the negotiated TTL bounds the grace.
func (r *run) grace(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	s, err := r.client.Session(ctx)
	if err != nil {
		return 0, err
	}
	most := longestGrace(s)
	switch {
	case !r.flags.graces:
		return min(usualGrace, most), nil
	case r.flags.grace > most:
		return 0, usage(fmt.Errorf("--grace %v is too long for a TTL of %v, which allows %v: "+
			"a hold lasts for %v after a renewal, and 0.4 of the TTL must remain for the next "+
			"renewals before the SIGTERM; use a longer --ttl or a shorter --grace",
			r.flags.grace, s.TTL(), most, s.TTL()-s.Margin()))
	}
	return r.flags.grace, nil
}

const usualGrace = 2 * time.Second

// longestGrace returns the longest grace that the session's TTL allows. A
// renewal is sent every tenth of the TTL. Three must be able to fail before the
// SIGTERM.
func longestGrace(s *coordinator.Session) time.Duration {
	return max(0, s.TTL()*6/10-s.Margin())
}

// broken returns the exit error for a failure of baton itself or a wrong
// command line.
func broken(err error) error {
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return err
	case errors.Is(err, coordinator.ErrInvalid):
		return usage(err)
	}
	return &exitError{code: exitBroken, err: err}
}
