package httplock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/contrib/httplock"
	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// replica is a server whose requests take a minute, unless their context ends.
type replica struct {
	http.Handler
	link *memory.Driver

	mu     sync.Mutex
	tokens []coordinator.Token
	causes []error
}

func play(t *testing.T, wait time.Duration, test func(t *testing.T, a, b *replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var replicas [2]*replica
		for i := range replicas {
			r := &replica{}
			client, link := lab.Replica(t, svc)
			r.link = link
			r.Handler = httplock.New(client, "orders", wait, func(r *http.Request) string { return r.URL.Path[1:] })(r.serve(t))
			replicas[i] = r
		}
		test(t, replicas[0], replicas[1])
	})
}

func (r *replica) serve(t *testing.T) http.HandlerFunc {
	return func(_ http.ResponseWriter, request *http.Request) {
		ctx := request.Context()
		lock := httplock.Lock(ctx)
		if (lock == nil) != (request.URL.Path == "/") {
			t.Errorf("%s has the lock %v", request.URL.Path, lock)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.causes = append(r.causes, context.Cause(ctx)); lock != nil {
			r.tokens = append(r.tokens, lock.Token())
		}
		if request.Method == "PANIC" {
			panic("a fault of the handler")
		}
	}
}

// ended returns the tokens of the requests that have ended, and why their
// contexts had.
func (r *replica) ended() ([]coordinator.Token, []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens, r.causes
}

// get sends a request that its client gives up with ctx.
func (r *replica) get(ctx context.Context, t *testing.T, path string, want int) {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
	if got := w.Code; got != want || (want != 200) != (w.Header().Get("Retry-After") != "") {
		t.Errorf("GET %s: %d %q, want %d", path, got, w.Body, want)
	}
}

func TestOneRequestOfAKeyIsServed(t *testing.T) {
	play(t, 0, func(t *testing.T, a, b *replica) {
		var all sync.WaitGroup
		all.Go(func() { a.get(t.Context(), t, "/17", 200) })
		synctest.Wait()
		a.get(t.Context(), t, "/17", 409)
		b.get(t.Context(), t, "/17", 409)
		for range 2 {
			all.Go(func() { b.get(t.Context(), t, "/", 200) }) // needs no lock
		}
		all.Go(func() { b.get(t.Context(), t, "/18", 200) })
		all.Wait()
		b.get(t.Context(), t, "/17", 200)
		first, _ := a.ended()
		if later, _ := b.ended(); len(first) != 1 || later[len(later)-1] <= first[0] {
			t.Errorf("tokens %v, then %v", first, later)
		}
	})
}

func TestRequestWaitsForOthersOfItsKey(t *testing.T) {
	play(t, 90*time.Second, func(t *testing.T, a, b *replica) {
		var all sync.WaitGroup
		all.Go(func() { a.get(t.Context(), t, "/17", 200) })
		synctest.Wait()
		all.Go(func() { b.get(t.Context(), t, "/17", 200) }) // after a minute
		time.Sleep(time.Second)
		all.Go(func() { a.get(t.Context(), t, "/17", 409) }) // it would be after two
		all.Wait()
	})
	play(t, 10*time.Second, func(t *testing.T, a, b *replica) {
		b.link.Cut()
		b.get(t.Context(), t, "/17", 503)
		a.get(t.Context(), t, "/17", 200)
	})
}

// TestHandlerEndsWithTheLock: the replica is cut off. Its new requests are
// refused.
func TestHandlerEndsWithTheLock(t *testing.T) {
	play(t, 0, func(t *testing.T, a, b *replica) {
		var all sync.WaitGroup
		all.Go(func() { a.get(t.Context(), t, "/17", 200) })
		synctest.Wait()
		a.link.Cut()
		a.get(t.Context(), t, "/18", 503)
		for {
			_, causes := a.ended()
			if len(causes) > 0 {
				if !errors.Is(causes[0], coordinator.ErrSessionLost) {
					t.Errorf("the context ended with %v", causes[0])
				}
				break
			}
			b.get(t.Context(), t, "/17", 409)
			time.Sleep(time.Second)
		}
		time.Sleep(lab.TTL)
		b.get(t.Context(), t, "/17", 200)
		all.Wait()
	})
}

// TestLockEndsWithTheRequest: its client goes away, or the handler panics.
func TestLockEndsWithTheRequest(t *testing.T) {
	play(t, 0, func(t *testing.T, a, b *replica) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.get(ctx, t, "/17", 200)
		if _, causes := a.ended(); len(causes) != 1 || !errors.Is(causes[0], context.DeadlineExceeded) {
			t.Errorf("the context ended with %v", causes)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			b.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "PANIC", "/17", nil))
		}()
		a.get(t.Context(), t, "/17", 200)
	})
}
