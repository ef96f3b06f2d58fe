package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// hold is what the holds of all recipes have in common.
type hold interface {
	Context() context.Context
	Deadline() time.Time
	Err() error
	Session() string
	Sequencer(ctx context.Context) (fence.Sequencer, error)
	Token() coordinator.Token
}

// grant is a hold, how it is given back, and what the command's environment says of it besides.
type grant struct {
	hold
	release func(context.Context) error
	env     []string
}

// recipe is how to get a hold.
type recipe struct {
	kind string
	op   string
	// on returns what takes the hold of a name. It does no I/O.
	on func(c *coordinator.Client, name string) (taker, error)
}

// taker takes one hold.
type taker struct {
	wait, try func(context.Context) (*grant, error)
}

// mutexRecipe and those below take their options from the flags.
func mutexRecipe(f *runFlags) recipe {
	return recipe{kind: "mutex", op: "lock", on: func(c *coordinator.Client, name string) (taker, error) {
		opts := []mutex.Option{mutex.WithPayload([]byte(f.payload))}
		if f.lockDelay != 0 {
			opts = append(opts, mutex.WithLockDelay(f.lockDelay))
		}
		m, err := mutex.New(c, name, opts...)
		if err != nil {
			return taker{}, err
		}
		granted := func(l *mutex.Lock, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			return &grant{hold: l, release: l.Unlock}, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) { return granted(m.Lock(ctx)) },
			try:  func(ctx context.Context) (*grant, error) { return granted(m.TryLock(ctx)) },
		}, nil
	}}
}

func rwlockRecipe(f *runFlags, write bool) recipe {
	op := "rlock"
	if write {
		op = "wlock"
	}
	return recipe{kind: "rwlock", op: op, on: func(c *coordinator.Client, name string) (taker, error) {
		l, err := rwlock.New(c, name, rwlock.WithPayload([]byte(f.payload)))
		if err != nil {
			return taker{}, err
		}
		wait, try := l.RLock, l.TryRLock
		if write {
			wait, try = l.Lock, l.TryLock
		}
		granted := func(l *rwlock.Lock, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			return &grant{hold: l, release: l.Unlock}, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) { return granted(wait(ctx)) },
			try:  func(ctx context.Context) (*grant, error) { return granted(try(ctx)) },
		}, nil
	}}
}

func semaphoreRecipe(f *runFlags, n, limit int, numbered bool) recipe {
	return recipe{kind: "semaphore", op: "sem", on: func(c *coordinator.Client, name string) (taker, error) {
		s, err := semaphore.New(c, name, limit, semaphore.WithPayload([]byte(f.payload)))
		if err != nil {
			return taker{}, err
		}
		granted := func(ctx context.Context, p *semaphore.Permit, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			g := &grant{hold: p, release: p.Release, env: []string{"BATON_PERMITS=" + strconv.Itoa(n)}}
			if !numbered {
				return g, nil
			}
			slots, err := p.Slots(ctx)
			if err != nil {
				_ = p.Release(ctx) // and if that fails, it ends with the session, as this process does
				return nil, err
			}
			words := make([]string, len(slots))
			for i, slot := range slots {
				words[i] = strconv.Itoa(slot)
			}
			g.env = append(g.env, "BATON_SLOTS="+strings.Join(words, " "))
			return g, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) {
				p, err := s.Acquire(ctx, n)
				return granted(ctx, p, err)
			},
			try: func(ctx context.Context) (*grant, error) {
				p, err := s.TryAcquire(ctx, n)
				return granted(ctx, p, err)
			},
		}, nil
	}}
}

func electionRecipe(f *runFlags, value string) recipe {
	return recipe{kind: "election", op: "elect", on: func(c *coordinator.Client, name string) (taker, error) {
		var opts []election.Option
		if f.lockDelay != 0 {
			opts = append(opts, election.WithLockDelay(f.lockDelay))
		}
		e, err := election.New(c, name, opts...)
		if err != nil {
			return taker{}, err
		}
		if value == "" {
			value = c.Identity()
		}
		granted := func(t *election.Term, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			return &grant{hold: t, release: t.Resign, env: []string{"BATON_VALUE=" + value}}, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) { return granted(e.Campaign(ctx, []byte(value))) },
			try:  func(ctx context.Context) (*grant, error) { return granted(e.TryCampaign(ctx, []byte(value))) },
		}, nil
	}}
}

func (a *app) leader() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "leader [flags] NAME",
		Short: "Tell who leads an election",
		Long: `Tells who leads the election NAME: the value that it proclaims, and in brackets its identity, the token of its term, and
since when it has been a candidate. Ends with 1 if nobody leads.

With --watch it tells each change, and "nobody" if there is no leader, until it is interrupted.

What it shows was true when the service showed it. Never act as leader upon it.`,
		Example: `  baton leader scheduler
  baton leader -o json scheduler | jq -r .value`,
		Args: cobra.ExactArgs(1),
	}
	output := addOutput(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if watch {
			return a.watchLeader(cmd.Context(), args[0], output.json())
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			e, err := election.New(c, args[0])
			if err != nil {
				return err
			}
			l, err := e.Leader(ctx)
			if errors.Is(err, election.ErrNoLeader) {
				return &exitError{code: exitFailed, err: fmt.Errorf("nobody leads %q", args[0])}
			} else if err != nil {
				return err
			}
			return a.showLeader(l, output.json())
		})
	}
	c.Flags().BoolVar(&watch, "watch", false, "tell each change")
	return c
}

// watchLeader shows leaders until a signal or an error ends it.
func (a *app) watchLeader(ctx context.Context, name string, machine bool) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	signals, stop := listen()
	defer stop()
	ctx, end := untilSignal(ctx, signals)
	defer end()
	defer finish(c)
	e, err := election.New(c, name)
	if err != nil {
		return err
	}
	for l, err := range e.Observe(ctx) {
		if sig := signalOf(ctx); sig != nil {
			return sig.exit()
		}
		if err != nil {
			return err
		}
		if err := a.showLeader(l, machine); err != nil {
			return err
		}
	}
	return nil
}

// showLeader writes one leader in one queue.
func (a *app) showLeader(l election.Leader, machine bool) error {
	if machine {
		if l.IsZero() {
			_, err := fmt.Fprintln(a.Out, "null")
			return err
		}
		return json.NewEncoder(a.Out).Encode(map[string]any{
			"identity": l.Identity, "value": string(l.Value), "token": l.Token, "session": l.Session, "since": l.Since,
		})
	}
	if l.IsZero() {
		_, err := fmt.Fprintln(a.Out, "nobody")
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s (%s, token %d, since %s)\n", cell(string(l.Value)), cell(l.Identity), l.Token, l.Since.Format(time.RFC3339))
	return err
}
