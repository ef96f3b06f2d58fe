package once

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// read returns the record. Unless latest, it may lack writes of other clients;
// a write over it is then refused.
func (o *Once) read(ctx context.Context, latest bool) (state, error) {
	read := o.queue.Record
	if latest {
		read = o.queue.LatestRecord
	}
	r, err := read(ctx)
	if err != nil {
		return state{}, err
	}
	s, err := decode(r)
	s.latest = latest
	return s, err
}

// The results of an edit that writes nothing.
var (
	errDone   = errors.New("the record is as it should be")
	errRepeat = errors.New("this has to be decided by the latest record")
)

// change applies an edit to the record s, or, if another client has written it,
// to those that it reads then. An edit that finds its own change returns
// errDone: a write whose reply was lost may have been applied. It is applied
// over the version that was read, so at most once.
func (o *Once) change(ctx context.Context, s state, edit func(*state) error) error {
	maybe, refused := false, driver.Any
	for failures := 1; ; failures++ {
		known := s.version
		err := edit(&s)
		switch {
		case err == errDone: //nolint:errorlint // ours
			return nil
		case err == errRepeat: //nolint:errorlint // ours
		case err != nil:
			return err
		case known == refused && s.latest:
			return errNoVersions
		default:
			if err = o.queue.SetRecord(ctx, s.encode(), known); err == nil {
				return nil
			}
			maybe = maybe || coordinator.MayHaveApplied(err)
			if refused = driver.Any; !coordinator.MayHaveApplied(err) {
				refused = known
			}
			if !recipes.Overtaken(ctx, err) {
				return doubtful(err, maybe)
			}
			if err = recipes.PauseAgain(ctx, o.queue, failures); err != nil {
				return doubtful(err, maybe)
			}
		}
		if s, err = o.read(ctx, true); err != nil {
			return doubtful(err, maybe)
		}
	}
}

// errNoVersions is the error of a write that is refused over the latest
// version, as on ZooKeeper after 2^31 writes.
var errNoVersions = driver.Wrap(coordinator.ErrRefused, errors.New("a write over the latest "+
	"version of the record; the service may have no more versions: use another name"))

// doubtful adds to an error that an earlier write may have been applied.
func doubtful(err error, maybe bool) error {
	if maybe && !coordinator.MayHaveApplied(err) {
		err = &coordinator.Error{Err: err, Maybe: true}
	}
	return err
}

// run is one hold, and the run that it may become.
//
//	begin -> work -> end
//	   \-> retract, if it cannot call the work
type run struct {
	*Once
	Run
	hold *Hold
	over driver.Version // that the last write of the begin replaces
}

// do runs the work if it is due. ctx ends with the hold.
func (r *run) do(ctx context.Context, op string, now state, work Work) error {
	begun, err := r.begin(ctx, now)
	if begun && ctx.Err() != nil { // reads the clock
		err = context.Cause(ctx)
	}
	if err != nil {
		if (begun || coordinator.MayHaveApplied(err)) && !r.repeat {
			r.retract(ctx)
		}
		return recipes.Describe(ctx, op, r.Name(), err)
	}
	if !begun {
		return nil
	}
	if err := work(ctx, r.hold); err != nil {
		return err
	}
	return recipes.Describe(ctx, "record the end of", r.Name(), r.end(ctx))
}

// begin records the begin, and reports whether the work is to be called.
//
// The record now was read before the caller had the hold. That is as good as
// one read later if it lacks the key: the write is refused if another client
// has added it. If it has the key, that run has ended meanwhile, as a rule
// complete. A plain read then shows it, for half the price of a latest one.
func (r *run) begin(ctx context.Context, now state) (begun bool, err error) {
	if now.find(r.Key) != nil {
		if now, err = r.read(ctx, false); err != nil {
			return false, err
		}
	}
	r.Began = time.Now().UTC().Truncate(time.Millisecond)
	for len(r.Identity) > maxIdentity {
		_, n := utf8.DecodeLastRuneInString(r.Identity)
		r.Identity = r.Identity[:len(r.Identity)-n]
	}
	err = r.change(ctx, now, func(s *state) error {
		over, err := s.over(r.Key)
		last := s.find(r.Key)
		switch {
		case err != nil:
			return err
		case over:
			begun = false
			return errDone
		case last != nil && last.Token == r.Token: // the reply was lost
			return errDone
		case last != nil && !s.latest: // the end may have been recorded
			return errRepeat
		case last != nil && !r.repeat:
			return &IncompleteError{r.Name(), *last}
		}
		begun, r.over = true, s.version // unless the write fails
		s.put(r.Run, r.keep)
		return nil
	})
	return begun && err == nil, err
}

// end records that the run is complete. It needs no hold: if another client has
// begun another run of the key meanwhile, one is complete nevertheless.
func (r *run) end(ctx context.Context) error {
	r.Ended = time.Now().UTC().Truncate(time.Millisecond)
	return r.anyway(ctx, func(s *state) error {
		if over, err := s.over(r.Key); over || err != nil {
			return errDone // a time that was forgotten does not run again
		}
		s.put(r.Run, r.keep)
		return nil
	})
}

// retract removes the begin of a run whose work was not called, so that another
// caller can run it. With WithRepeat another one can anyway.
//
// If the write of the begin has not arrived yet, it may arrive later. So the
// record is written as it is: the late write finds another version.
func (r *run) retract(ctx context.Context) {
	_ = r.anyway(ctx, func(s *state) error { // the caller has the error
		switch last := s.find(r.Key); {
		case last != nil && last.Token == r.Token:
			s.remove(r.Key)
			return nil
		case s.version == r.over:
			return nil
		}
		return errDone
	})
}

// anywayTime bounds what has to be done although the context has ended.
const anywayTime = 2 * time.Second

// anyway changes the record, also if ctx ends.
func (r *run) anyway(ctx context.Context, edit func(*state) error) error {
	try := func(ctx context.Context) error {
		now, err := r.read(ctx, false)
		if err != nil {
			return err
		}
		return r.change(ctx, now, edit)
	}
	err := try(ctx)
	if err != nil && ctx.Err() != nil {
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), anywayTime)
		defer cancel()
		err = try(brief)
	}
	return err
}
