package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/recipes"
)

// run is one call of a command that runs a command.
type run struct {
	*app
	flags      *runFlags
	recipe     recipe
	name, path string
	argv       []string

	signals <-chan os.Signal
	renewed chan struct{} // has an element when the deadline has moved since it was last empty
}

// main runs the command under one hold after the other: mostly one.
func (r *run) main(ctx context.Context) error {
	signals, stop := listen()
	defer stop()
	defer survivePipes()()
	r.signals, r.renewed = signals, make(chan struct{}, 1)
	if !r.flags.payloads {
		// Not its arguments: whoever can read the service sees this, and
		// arguments can have secrets.
		r.flags.payload = filepath.Base(r.path)
	}
	c, err := r.open(append(r.flags.options(), coordinator.WithObserver(event.ObserverFunc(r.observe)))...)
	if err != nil {
		return err
	}
	defer finish(c)
	t, err := r.recipe.on(c, r.name)
	if err != nil {
		return broken(err)
	}
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		began := time.Now()
		err := r.term(ctx, c, t)
		if !r.flags.again || !again(err) {
			return err
		}
		if said := errors.Unwrap(err); said != nil {
			r.say("%s", describe(said))
		}
		r.say("campaigning again")
		if time.Since(began) > mostPause {
			pause = leastPause
		}
		if err := r.rest(ctx, pause); err != nil {
			return err
		}
	}
}

// survivePipes catches SIGPIPE and drops it: a word on a standard error that
// nobody reads any more would end baton, and with it the command, without a
// SIGTERM. The command has the signal as usual, since what is caught is not
// inherited.
func survivePipes() (stop func()) {
	if signal.Ignored(syscall.SIGPIPE) {
		return func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// The pauses between two campaigns, and the time that the last clean-up may take.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
	closing    = 2 * time.Second
)

// again tells whether another campaign can mend it: the hold was lost, or the
// service is away. Codes alone do not tell that: they can be the command's own,
// which is the end.
func again(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && (exit.lost || exit.code == exitBroken && exit.err != nil) && !errors.Is(err, errUnguarded)
}

// rest waits, or returns which signal ended that.
func (r *run) rest(ctx context.Context, pause time.Duration) error {
	ctx, stop := untilSignal(ctx, r.signals)
	defer stop()
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
	}
	if sig := signalOf(ctx); sig != nil {
		return sig.exit()
	}
	return broken(context.Cause(ctx))
}

// signalOf is the signal that ended a context; nil if none did.
func signalOf(ctx context.Context) *signalError {
	var sig *signalError
	errors.As(context.Cause(ctx), &sig)
	return sig
}

func (e *signalError) exit() error { return &exitError{code: exitSignal + e.number} }

func (r *run) observe(e event.Event) {
	if e.Kind == event.SessionRenewed {
		select {
		case r.renewed <- struct{}{}:
		default:
		}
	}
}

// term takes the hold, runs the command, and gives the hold back. The error has the exit code.
func (r *run) term(ctx context.Context, c *coordinator.Client, t taker) error {
	g, grace, err := r.take(ctx, c, t)
	if err != nil {
		return err
	}
	err = r.under(ctx, c, g, grace)
	r.release(ctx, g)
	return err
}

// release gives the hold back. What fails is said, and hides no exit code. That
// it was lost has been said.
func (r *run) release(ctx context.Context, g *grant) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if err := g.release(bound); err != nil && !lost(err) {
		r.say("%s; the name is free when the session has ended, at the latest after its TTL", plain(err))
	}
}

// lost tells whether an error says that a hold is over that nobody gave back.
func lost(err error) bool {
	return errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrRemoved)
}

// under runs the command while g holds. The error has the command's exit code,
// if that is not 0, or says why it did not run.
func (r *run) under(ctx context.Context, c *coordinator.Client, g *grant, grace time.Duration) error {
	env, err := r.environ(ctx, c, g)
	if err != nil {
		return broken(err)
	}
	spec := ward.Spec{
		Path: r.path, Args: r.argv, Env: env, In: r.In, Out: r.Out, Err: r.Err,
		Title: r.recipe.op + " " + r.name,
	}
	if r.flags.onLost.value != onLostRun {
		spec.Deadline = g.Deadline()
	}
	if err := g.Err(); err != nil {
		return &exitError{code: exitLost, lost: true, err: fmt.Errorf("the command was not started: %w", err)}
	}
	w, err := ward.Start(spec)
	if unguarded := (*ward.Error)(nil); errors.As(err, &unguarded) {
		return &exitError{code: exitBroken, err: fmt.Errorf("%w: %w", errUnguarded, err)}
	} else if err != nil {
		return cannotRun(err)
	}
	defer w.Close()
	k := &keeper{
		hold: g, ward: w, grace: grace, runOn: r.flags.onLost.value == onLostRun,
		signals: r.signals, renewed: r.renewed, say: r.say,
	}
	ended := k.keep()
	if !k.runOn && w.Left(grace) { // it may be about to end: what drains a pipe, say
		r.endRest(w, grace, ended)
	}
	code := w.Code()
	if ended {
		code = exitLost
	}
	if code == 0 {
		return nil
	}
	return &exitError{code: code, lost: ended, interrupted: !ended && w.Interrupted()}
}

// endRest ends what the command has left. It was told already if the hold has ended the command.
func (r *run) endRest(w *ward.Ward, grace time.Duration, told bool) {
	if !told {
		r.say("%s has ended, but not all that it has started; that is ended now: what shall live on needs setsid", r.argv[0])
		w.Terminate()
		if !w.Left(grace) {
			return
		}
	}
	_ = w.Kill() // what it does not end is left
	if w.Left(closing) {
		r.say("something that %s has started cannot be killed, and runs on without the hold", r.argv[0])
	}
}

var errUnguarded = errors.New("the command cannot be guarded")

// take waits for the hold, and returns it with the grace that its session allows.
func (r *run) take(ctx context.Context, c *coordinator.Client, t taker) (*grant, time.Duration, error) {
	ctx, stop := untilSignal(ctx, r.signals)
	defer stop()
	bound := ctx
	if r.flags.waits {
		limited, cancel := context.WithTimeoutCause(ctx, r.flags.wait, errWaited)
		defer cancel()
		bound = limited
	}
	grace, err := r.grace(bound, c)
	if err != nil {
		return nil, 0, r.notHeld(bound, c, err)
	}
	var g *grant
	if r.flags.nonblock {
		looking, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
		defer cancel()
		g, err = t.try(looking)
	} else {
		g, err = t.wait(bound)
	}
	if err != nil {
		return nil, 0, r.notHeld(bound, c, err)
	}
	stop() // from here on signals are the command's; one that came before must not be lost
	if sig := signalOf(ctx); sig != nil {
		r.release(ctx, g)
		return nil, 0, sig.exit()
	}
	return g, grace, nil
}

var (
	errWaited = errors.New("waited for as long as --wait allows")
	errSilent = fmt.Errorf("no answer within %v", patience)
)

// notHeld is the error for a hold that was not got.
func (r *run) notHeld(ctx context.Context, c *coordinator.Client, err error) error {
	sig := signalOf(ctx)
	switch {
	case sig != nil:
		return sig.exit()
	case errors.Is(err, coordinator.ErrTaken):
		return &exitError{code: r.flags.conflict, err: err}
	case errors.Is(err, errWaited) && !errors.Is(err, coordinator.ErrUnavailable):
		return &exitError{code: r.flags.conflict, err: r.waited(c)}
	}
	return broken(err)
}

// waited is a TakenError after a wait. Who holds is asked now.
func (r *run) waited(c *coordinator.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	taken := &recipes.TakenError{Op: r.recipe.op, Name: r.name}
	queue, _ := readers[r.recipe.kind](ctx, c, r.name) // it is an extra for people
	if len(queue.Contenders) > 0 {
		first := queue.Contenders[0]
		taken.Holder = recipes.Contender{Identity: first.Identity, Token: first.Token}
		if first.Since != nil {
			taken.Holder.Since = *first.Since
		}
	}
	return fmt.Errorf("%w; waited for %v", taken, r.flags.wait)
}

// grace is how long before its deadline the command is told. It opens the
// session, which knows what can be had.
func (r *run) grace(ctx context.Context, c *coordinator.Client) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	s, err := c.Session(ctx)
	if err != nil {
		return 0, err
	}
	if r.flags.onLost.value != onLostTerminate {
		return 0, nil
	}
	// A renewal is sent every quarter of the TTL, and given up a quarter later.
	// One has to fit in before the SIGTERM.
	most := s.TTL()/2 - s.Margin()
	switch {
	case !r.flags.graces:
		return max(0, min(usualGrace, most)), nil
	case r.flags.grace > most:
		return 0, usage(fmt.Errorf("--grace %v is too long for a TTL of %v, which allows %v: the hold is good for %v after a renewal, and half the TTL, %v, has to be left "+
			"for the next renewal before the SIGTERM; take a longer --ttl, or a shorter --grace",
			r.flags.grace, s.TTL(), max(0, most), s.TTL()-s.Margin(), s.TTL()/2))
	}
	return r.flags.grace, nil
}

const usualGrace = 2 * time.Second

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.Err, "baton: "+format+"\n", args...)
}

// broken is a failure of baton itself. What is wrong with the command line stays that.
func broken(err error) error {
	var exit *exitError
	if errors.As(err, &exit) {
		return err
	}
	code := exitBroken
	if errors.Is(err, coordinator.ErrInvalid) {
		code = exitUsage
	}
	return &exitError{code: code, err: err}
}

// cannotRun is the error for a command that was not started.
func cannotRun(err error) *exitError {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exitError{code: exitNotFound, err: err}
	}
	return &exitError{code: exitCannotRun, err: err}
}
