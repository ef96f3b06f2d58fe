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
	must(b, err)
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	e, err := election.New(c, "jobs")
	must(b, err)
	return svc, e
}

func BenchmarkCampaignResign(b *testing.B) {
	svc, e := benchmark(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		t, err := e.Campaign(ctx, nil)
		must(b, err)
		must(b, t.Resign(ctx))
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}

func BenchmarkRun(b *testing.B) {
	svc, e := benchmark(b)
	ctx := context.Background()
	work := func(context.Context, *election.Term) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		must(b, e.Run(ctx, work))
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}
