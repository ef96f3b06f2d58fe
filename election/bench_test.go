package election_test

import (
	"context"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// benchmark runs f with an election on the memory service, which answers
// without delay: it measures Baton alone.
func benchmark(b *testing.B) (*memory.Service, *election.Election) {
	svc := memory.NewService()
	c, err := coordinator.New(svc.Driver())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	e, err := election.New(c, "jobs")
	if err != nil {
		b.Fatal(err)
	}
	return svc, e
}

func BenchmarkCampaignResign(b *testing.B) {
	svc, e := benchmark(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		t, err := e.Campaign(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := t.Resign(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}

func BenchmarkRun(b *testing.B) {
	svc, e := benchmark(b)
	ctx := context.Background()
	work := func(context.Context, *election.Term) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Run(ctx, work); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}
