package semaphore_test

import (
	"context"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// bench returns a semaphore on a service that answers without delay: it
// measures Baton alone.
func bench(b *testing.B, limit int) (*memory.Service, *semaphore.Semaphore) {
	b.Helper()
	svc := memory.NewService()
	c, err := coordinator.New(svc.Driver(), quiet)
	check(b, err)
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	s, err := semaphore.New(c, "jobs", limit)
	check(b, err)
	b.ReportAllocs()
	return svc, s
}

func take(b *testing.B, s *semaphore.Semaphore, n int) *semaphore.Permit {
	p, err := s.Acquire(context.Background(), n)
	check(b, err)
	return p
}

func give(b *testing.B, p *semaphore.Permit) {
	check(b, p.Release(context.Background()))
}

func requests(b *testing.B, svc *memory.Service) {
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}

func BenchmarkAcquireRelease(b *testing.B) {
	svc, s := bench(b, 10)
	for b.Loop() {
		give(b, take(b, s, 1))
	}
	requests(b, svc)
}

// BenchmarkHandOver has eight goroutines contend for two permits.
func BenchmarkHandOver(b *testing.B) {
	svc, s := bench(b, 2)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := s.Acquire(context.Background(), 1)
			if err == nil {
				err = p.Release(context.Background())
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	requests(b, svc)
}
