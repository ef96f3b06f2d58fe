package partition_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/partition"
)

// TestContextOfWorkEndsBeforeTheShardIsFree, also if work is slow to return:
// when the shard moves, Run ends, the client is closed or the session is lost.
func TestContextOfWorkEndsBeforeTheShardIsFree(t *testing.T) {
	for how, end := range map[string]func(f *fleet, p *process){
		"move":  func(f *fleet, _ *process) { f.start() },
		"stop":  func(_ *fleet, p *process) { p.cancel() },
		"close": func(_ *fleet, p *process) { _ = p.client.Close(context.Background()) },
		"loss":  func(_ *fleet, p *process) { p.link.Cut(); time.Sleep(2 * ttl); p.link.Heal() },
	} {
		for _, drain := range []time.Duration{0, time.Second, 5 * time.Second} {
			run(t, 4, func(f *fleet) {
				var mu sync.Mutex
				given := make(map[coordinator.Token][]context.Context)
				p := f.startWith(4, func(ctx context.Context, _ int, token coordinator.Token) error {
					derived, cancel := context.WithCancel(ctx)
					defer cancel()
					mu.Lock()
					given[token] = append(given[token], ctx, derived)
					mu.Unlock()
					<-ctx.Done()
					time.Sleep(drain)
					return nil
				}, partition.WithDrain(3*time.Second))
				f.settle(time.Second, p)
				judged := 0
				f.svc.OnStep(func(s memory.Step) {
					mu.Lock()
					defer mu.Unlock()
					if s.Kind != memory.StepLeft || !strings.HasPrefix(string(s.Queue), "partition-shard/") {
						return
					}
					for _, ctx := range given[s.Entry.Token] {
						judged++
						select {
						case <-ctx.Done():
						default:
							t.Errorf("%s, drain %v: a context is alive when its shard is free", how, drain)
						}
					}
				})
				p.link.Delay(0, 0) // so that nothing has time to run late
				end(f, p)
				time.Sleep(2 * ttl)
				f.svc.OnStep(nil)
				if judged == 0 {
					t.Errorf("%s: nothing was judged", how)
				}
			})
		}
	}
}
