// Package lab has what the tests of the adapters share.
package lab

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/bubble"
)

// TTL is that of all replicas.
const TTL = 30 * time.Second

// Replica returns a client of svc, as one process has, and the link that the
// test can break. It must be called in a bubble.
func Replica(t *testing.T, svc *memory.Service) (*coordinator.Client, *memory.Driver) {
	t.Helper()
	link := svc.Driver()
	client, err := coordinator.New(link, coordinator.WithTTL(TTL), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		link.Heal()
		_ = client.Close(context.Background()) // an error if the test ended its session
	})
	bubble.EndIfFailed(t, link, client)
	return client, link
}
