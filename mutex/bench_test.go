package mutex_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// bench returns a mutex on a new service.
func bench(b *testing.B) (*memory.Service, *mutex.Mutex) {
	svc := memory.NewService()
	c, err := coordinator.New(svc.Driver())
	check(b, err)
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	m, err := mutex.New(c, "jobs")
	check(b, err)
	return svc, m
}

// BenchmarkLockUnlock measures Baton alone: the memory service answers without
// delay.
func BenchmarkLockUnlock(b *testing.B) {
	svc, m := bench(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(ctx)
		check(b, err)
		check(b, l.Unlock(ctx))
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}

func BenchmarkReenter(b *testing.B) {
	_, m := bench(b)
	outer, err := m.Lock(context.Background())
	check(b, err)
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(outer.Context())
		check(b, err)
		check(b, l.Unlock(context.Background()))
	}
}

// BenchmarkHandOver is one grant among contenders that join again at once. The
// cost of a grant must not grow with their number.
func BenchmarkHandOver(b *testing.B) {
	for _, contenders := range []int{2, 64} {
		b.Run(fmt.Sprintf("contenders=%d", contenders),
			func(b *testing.B) { handOver(b, contenders) })
	}
}

func handOver(b *testing.B, contenders int) {
	svc, m := bench(b)
	b.ReportAllocs()
	b.SetParallelism(max(1, contenders/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := m.Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}
