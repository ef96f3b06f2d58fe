package main

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// readStale reads the cache without a lock. That it is whole is seen to by the
// store, where a version is there when it is complete. Who finds it too old
// tries to become the one who rebuilds it. Who does not serves what is there,
// and waits only if that is much too old or there is nothing.
//
// A read-write lock is of no use here: a writer that waits keeps new readers
// out, and they would wait as long as it writes.
func (r *replica) readStale(ctx context.Context) error {
	fresh, usable := r.look("reads")
	if fresh {
		return nil
	}
	take := r.rebuilding.Lock
	if usable {
		take = r.rebuilding.TryLock
	}
	lock, err := take(ctx)
	if errors.Is(err, coordinator.ErrTaken) {
		return nil // what was just read has to do
	}
	if err != nil {
		return err
	}
	return errors.Join(r.renew(lock), lock.Unlock(ctx))
}

// renew rebuilds the cache, unless another replica has been faster.
func (r *replica) renew(lock *mutex.Lock) error {
	if token, age, err := r.store.look(); token != 0 && err == nil && age < r.maxAge {
		return nil
	}
	if err := r.store.write(lock.Context(), lock.Token()); err != nil {
		return err
	}
	r.rebuilds++
	r.out.Printf("%s has rebuilt the cache under token %d", r.name, lock.Token())
	_, _ = r.look("goes on with")
	return nil
}
