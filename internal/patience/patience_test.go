package patience_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/internal/patience"
)

type key struct{}

// TestBoundContextHasTheValuesAndNoCauseOfTheCaller: it ends with the caller's
// context or with its life, and its cause is that of neither.
func TestBoundContextHasTheValuesAndNoCauseOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, ends := range map[string]func(end, die func()){
			"the caller's context ends": func(end, _ func()) { end() },
			"the life ends":             func(_, die func()) { die() },
		} {
			ctx, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
			life, die := context.WithCancel(context.Background())
			bound, stop := patience.Bind(ctx, life)
			if bound.Value(key{}) != "v" || bound.Err() != nil {
				t.Errorf("value %v, error %v", bound.Value(key{}), bound.Err())
			}
			ends(func() { end(errors.New("lost")) }, die)
			<-bound.Done()
			if cause := context.Cause(bound); cause != context.Canceled { //nolint:errorlint // identity
				t.Errorf("%s: cause %v", name, cause)
			}
			stop()
			die()
			end(nil)
		}
	})
}

// TestPatienceEndsWithinItsTime: an attempt lasts for at least three quarters
// of the time, and at most for all of it.
func TestPatienceEndsWithinItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 4 * time.Second
		p := patience.New(t.Context(), lasts)
		for range 20 {
			began := time.Now()
			bound, stop := patience.Bind(context.Background(), p.Context())
			time.AfterFunc(lasts/8, func() { _ = p.Context() }) // another attempt changes nothing
			<-bound.Done()
			if took := time.Since(began); took < lasts*3/4 || took > lasts ||
				context.Cause(bound) != context.DeadlineExceeded { //nolint:errorlint // identity
				t.Errorf("ended after %v: %v", took, context.Cause(bound))
			}
			stop()
			time.Sleep(lasts / 7)
		}
	})
}

// TestContextsOfABoundOneNeedNoGoroutine: contexts that a client library
// derives end with it without a goroutine each, whatever the caller's context
// is.
func TestContextsOfABoundOneNeedNoGoroutine(t *testing.T) {
	life, die := context.WithCancel(context.Background())
	defer die()
	before := runtime.NumGoroutine()
	for range 100 {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		bound, stop := patience.Bind(ctx, life)
		defer stop()
		derived, cancel := context.WithCancel(bound)
		defer cancel()
		_ = derived
	}
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("%d goroutines for 100 requests", n)
	}
}
