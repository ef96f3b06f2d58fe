package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// replica is one of the many that read the cache.
type replica struct {
	name          string
	lock          *rwlock.RWLock
	rebuilding    *mutex.Mutex // the one lock with -stale
	store         store
	maxAge, stale time.Duration
	out           *log.Logger

	reads, rebuilds, damaged int
	longest                  time.Duration     // that a read took without rebuilding, when it had read before
	last                     coordinator.Token // of the cache that was read last
	err                      error             // what serve has returned
}

// serve reads the cache again and again, until ctx ends.
func (r *replica) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		began, rebuilds, first := time.Now(), r.rebuilds, r.last == 0
		err := r.read(ctx)
		if err == nil && rebuilds == r.rebuilds && !first {
			r.longest = max(r.longest, time.Since(began))
		}
		switch {
		case err == nil:
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)): // it is over: no lock is waited for any longer
			return nil
		case fleet.Passing(err):
			r.out.Printf("%s: %v; trying again", r.name, err) // the client opens a new session by itself
		default:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // other work
		}
	}
	return nil
}

// read reads the cache once, and sees to it that it is rebuilt if it is too old.
func (r *replica) read(ctx context.Context) error {
	if r.stale > 0 {
		return r.readStale(ctx)
	}
	fresh := false
	err := r.lock.RDo(ctx, func(context.Context) error {
		fresh, _ = r.look("reads")
		return nil
	})
	if err != nil || fresh {
		return err
	}
	return r.rebuild(ctx)
}

// rebuild rebuilds the cache and reads it, unless another replica has been faster.
func (r *replica) rebuild(ctx context.Context) error {
	w, err := r.lock.Lock(ctx)
	if err != nil {
		return err
	}
	if token, age, err := r.store.look(); token != 0 && err == nil && age < r.maxAge {
		return w.Unlock(ctx) // it is fresh by now
	}
	if err := r.store.write(w.Context(), w.Token()); err != nil {
		return errors.Join(err, w.Unlock(ctx))
	}
	r.rebuilds++
	r.out.Printf("%s has rebuilt the cache under token %d", r.name, w.Token())

	// The downgrade: from here on others read too, and nobody has written in between.
	reading, err := r.lock.RLock(w.Context())
	if err != nil {
		return errors.Join(err, w.Unlock(ctx))
	}
	if err := w.Unlock(ctx); err != nil {
		return errors.Join(err, reading.Unlock(ctx))
	}
	_, _ = r.look("goes on with")
	if r.last != reading.Token() && reading.Err() == nil {
		err = fmt.Errorf("%s wrote under token %d and found token %d", r.name, reading.Token(), r.last)
	}
	return errors.Join(err, reading.Unlock(ctx))
}

// look looks at the cache, and reports whether it is there, whole and fresh,
// and if not, whether it will do while another one is made.
func (r *replica) look(verb string) (fresh, usable bool) {
	token, age, err := r.store.look()
	switch {
	case token == 0: // nobody has written it yet
		return false, false
	case err != nil:
		r.damaged++
		r.out.Printf("%s finds the cache damaged: %v", r.name, err)
		return false, false
	}
	r.reads++
	if token != r.last {
		r.out.Printf("%s %s what was written under token %d", r.name, verb, token)
		r.last = token
	}
	return age < r.maxAge, age < r.maxAge+r.stale
}
