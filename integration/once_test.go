package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/recipes/once"
)

// TestWorkOfAKeyRunsOnce: six clients call Do for each of five keys at the same
// time, and one comes later. The work that fails is over for all, or called
// again if it is to be repeated.
func TestWorkOfAKeyRunsOnce(t *testing.T) {
	t.Parallel()
	errFirst := errors.New("the first call fails")
	together(t, func(t *testing.T, s site) {
		name, ctx := fresh(t), await.Context(t)
		var mu sync.Mutex
		calls := make(map[string]int)
		var all sync.WaitGroup
		for i := range 6 {
			c := s.client(t, longTTL)
			all.Go(func() {
				for key := range 5 {
					for _, repeat := range []bool{false, true} {
						what := fmt.Sprint("once-", repeat)
						err := doOnce(ctx, c, name(what), repeat, key, func() error {
							mu.Lock()
							defer mu.Unlock()
							of := fmt.Sprint(what, key)
							if calls[of]++; key == 3 && calls[of] == 1 {
								return errFirst
							}
							return nil
						})
						_, incomplete := errors.AsType[*once.IncompleteError](err)
						if err != nil && (key != 3 || !errors.Is(err, errFirst) && (repeat || !incomplete)) {
							t.Errorf("client %d, key %d, repeat %v: %v", i, key, repeat, err)
						}
					}
				}
			})
		}
		all.Wait()
		late, err := once.New(s.client(t, longTTL), name("once-false"))
		if err != nil {
			t.Fatal(err)
		}
		for key := range 5 {
			err := late.Do(ctx, keyAt(key), func(context.Context, *once.Hold) error {
				t.Errorf("key %d runs again", key)
				return nil
			})
			if _, incomplete := errors.AsType[*once.IncompleteError](err); incomplete != (key == 3) {
				t.Errorf("key %d, later: %v", key, err)
			}
			again := 1
			if key == 3 {
				again = 2
			}
			if n, m := calls[fmt.Sprint("once-false", key)], calls[fmt.Sprint("once-true", key)]; n != 1 || m != again {
				t.Errorf("key %d: %d calls, and %d with repeat", key, n, m)
			}
		}
		runs, err := late.Runs(ctx)
		if err != nil || len(runs) != 5 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

func keyAt(hour int) string { return once.At(time.Date(2026, 11, 28, hour, 0, 0, 0, time.UTC)) }

func doOnce(
	ctx context.Context, c *coordinator.Client, name string, repeat bool, key int, work func() error,
) error {
	var opts []once.Option
	if repeat {
		opts = append(opts, once.WithRepeat())
	}
	o, err := once.New(c, name, opts...)
	if err != nil {
		return err
	}
	return o.Do(ctx, keyAt(key), func(context.Context, *once.Hold) error { return work() })
}
