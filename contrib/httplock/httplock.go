// Package httplock serves one HTTP request per key at a time, in all replicas
// of a server.
//
//	exclusive := httplock.New(client, "orders", 0, func(r *http.Request) string { return r.PathValue("id") })
//	mux.Handle("PUT /orders/{id}", exclusive(handler))
//
// # Guaranteed
//
// One handler per key runs at a time. The context of its request ends if the
// lock is lost, before another replica has it, and if the client goes away. A
// request that does not get the lock has the status 409 Conflict if another one
// has it, and 503 Service Unavailable if the coordination service does not
// answer, both with Retry-After.
//
// # Not guaranteed
//
// A handler must return when the context of its request has ended; a response
// that was sent stays sent. The lock makes no request idempotent: a client that
// repeats one after it was served is served again. Pass the token of Lock to
// the resource that the handler changes: see coordinator/fence.
package httplock

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/baton-go/baton/contrib/internal/names"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// answer is how long a request waits for the answer of the service.
const answer = 5 * time.Second

// New returns a middleware that locks name/key for each request. A request
// waits for others of its key for up to wait; with 0 it does not wait. A
// request with the key "" needs no lock. New does no I/O.
func New(client *coordinator.Client, name string, wait time.Duration, key func(*http.Request) string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k := key(r)
			if k == "" {
				next.ServeHTTP(w, r)
				return
			}
			lock, err := acquire(r.Context(), client, names.Lock(name, k), wait)
			if err != nil {
				refuse(w, err)
				return
			}
			// Also after a panic, and if the client has gone. If it is lost,
			// the handler's context says so.
			defer func() { _ = lock.Unlock(context.WithoutCancel(r.Context())) }()
			ctx, cancel := context.WithCancelCause(context.WithValue(lock.Context(), lockKey{}, lock))
			defer cancel(nil)
			defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

type lockKey struct{}

// Lock returns the lock of a request, by its context: for Token, Err and
// Wanted. It is nil without a lock. Only the middleware unlocks it.
func Lock(ctx context.Context) *mutex.Lock {
	lock, _ := ctx.Value(lockKey{}).(*mutex.Lock)
	return lock
}

func acquire(ctx context.Context, client *coordinator.Client, name string, wait time.Duration) (*mutex.Lock, error) {
	m, err := mutex.New(client, name, mutex.WithoutReentry())
	if err != nil {
		return nil, err
	}
	if wait <= 0 {
		ctx, cancel := context.WithTimeout(ctx, answer)
		defer cancel()
		return m.TryLock(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, coordinator.ErrTaken)
	defer cancel()
	return m.Lock(ctx)
}

// refuse answers a request that did not get the lock.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	if errors.Is(err, coordinator.ErrTaken) && !errors.Is(err, coordinator.ErrUnavailable) {
		http.Error(w, "another request is being served", http.StatusConflict)
		return
	}
	http.Error(w, "no lock could be obtained", http.StatusServiceUnavailable)
}
