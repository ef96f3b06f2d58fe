package mutex_test

import (
	"context"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// BenchmarkLockUnlock is what Baton itself costs: the memory service answers without delay.
func BenchmarkLockUnlock(b *testing.B) {
	svc := memory.NewService()
	c, err := coordinator.New(svc.Driver())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	m, err := mutex.New(c, "jobs")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}

func BenchmarkReenter(b *testing.B) {
	c, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	m, err := mutex.New(c, "jobs")
	if err != nil {
		b.Fatal(err)
	}
	outer, err := m.Lock(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(outer.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
