// Package story tells the famous story of a lock that was lost unawares, on
// whatever resources it is given: a holder is stopped for longer than its TTL,
// another one takes over and writes, the first one goes on where it was, and
// its late write comes.
package story

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/mutex"
)

// Resource is what the lock protects.
type Resource interface {
	Name() string
	// Write replaces the text, for who shows this sequencer. A late one is
	// refused with an error that is fence.ErrStale.
	Write(ctx context.Context, s fence.Sequencer, text string) error
	Read(ctx context.Context) (string, error)
}

// Story is the cast.
type Story struct {
	// First and Second are the lock as two processes have it.
	First, Second *mutex.Mutex
	// Stop stops the first process, as SIGSTOP or a long pause would: nothing
	// of it reaches the service any more.
	Stop      func()
	Resources []Resource
	Out       io.Writer
}

// Tell tells it, and takes as long as it takes the service to end the first
// one's session. It returns an error if a resource took the late write, or
// refused another one.
func (s Story) Tell(ctx context.Context) error {
	first, err := s.First.Lock(ctx)
	if err != nil {
		return err
	}
	late, err := first.Sequencer(ctx)
	if err != nil {
		return err
	}
	s.say("first   has the lock, with token %d", late.Token)
	if err := s.write(ctx, late, "written by the first"); err != nil {
		return err
	}
	s.say("first   has looked at its lock, and is about to write again")
	s.say("first   ... is stopped, for longer than its TTL")
	s.Stop()

	second, err := s.Second.Lock(ctx)
	if err != nil {
		return err
	}
	next, err := second.Sequencer(ctx)
	if err != nil {
		return err
	}
	s.say("second  has the lock, with token %d", next.Token)
	if err := s.write(ctx, next, "written by the second"); err != nil {
		return err
	}

	s.say("first   ... goes on, and out goes its write")
	for _, r := range s.Resources {
		err := r.Write(ctx, late, "written late")
		if !errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("%s and the late write: %w", r.Name(), errors.Join(errTaken, err))
		}
		s.say("        %-20s refuses it: %v", r.Name(), err)
	}
	for _, r := range s.Resources {
		if text, err := r.Read(ctx); err != nil || text != "written by the second" {
			return fmt.Errorf("%s has %q in the end: %w", r.Name(), text, errors.Join(errTaken, err))
		}
	}
	s.say("first   looks at its lock again: %v", first.Err())
	return second.Unlock(ctx)
}

var errTaken = errors.New("not refused as it should be")

func (s Story) write(ctx context.Context, seq fence.Sequencer, text string) error {
	for _, r := range s.Resources {
		if err := r.Write(ctx, seq, text); err != nil {
			return fmt.Errorf("%s: %w", r.Name(), err)
		}
	}
	return nil
}

func (s Story) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }
