package partition_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/partition"
)

// probe returns the status and the body of a probe.
func probe(h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return fmt.Sprint(w.Code, " ", w.Body)
}

// TestMemberFindsItsShardsAndItsReadiness at each step of its life.
func TestMemberFindsItsShardsAndItsReadiness(t *testing.T) {
	run(t, 4, func(f *fleet) {
		var health partition.Health
		expect := func(when, ready, live string, shards int, p *process) {
			t.Helper()
			if got := probe(health.Ready()); got != ready+"\n" {
				t.Errorf("%s: ready: %q, want %q", when, got, ready)
			}
			if got := probe(health.Live()); got != live+"\n" {
				t.Errorf("%s: live: %q, want %q", when, got, live)
			}
			var held, want []int
			for _, s := range p.p.Holds() {
				held = append(held, s.Number())
			}
			for s, owner := range f.owners() {
				if owner == p {
					want = append(want, s)
				}
			}
			if slices.Sort(want); len(held) != shards || shards > 0 && len(want) > 0 && !slices.Equal(held, want) {
				t.Errorf("%s: holds %v, want %d of %v", when, held, shards, want)
			}
		}
		slow := f.startWith(4, func(ctx context.Context, _ int, _ coordinator.Token) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			return nil
		})
		f.settle(time.Second, slow)
		if got := probe(health.Ready()); got != "503 not a member\n" {
			t.Errorf("without a partition: %q", got)
		}
		p := f.start(partition.WithHealth(&health))
		expect("before it has joined", "503 not a member", "200 ok", 0, p)
		time.Sleep(time.Second)
		expect("while the other drains", "503 holds 0 of 2 shards", "200 ok", 0, p)
		f.settle(10*time.Second, slow, p)
		expect("at rest", "200 holds 2 of 2 shards", "200 ok", 2, p)
		p.link.Cut()
		time.Sleep(ttl / 2)
		expect("without an answer", "200 holds 2 of 2 shards", "503 holds shards, but the session is suspended", 2, p)
		time.Sleep(2 * ttl)
		expect("after the loss", "503 not a member", "200 ok", 0, p)
		p.link.Heal()
		f.settle(time.Minute, slow, p)
		expect("again", "200 holds 2 of 2 shards", "200 ok", 2, p)
		p.cancel()
		<-p.done
		expect("after the end", "503 not a member", "200 ok", 0, p)
	})
}

// TestStoppingMemberIsNotReady, and holds its shards until its work returns. If
// that does not, the process is not live until it has.
func TestStoppingMemberIsNotReady(t *testing.T) {
	run(t, 1, func(f *fleet) {
		var health partition.Health
		end := make(chan struct{})
		p := f.startWith(1, func(ctx context.Context, _ int, _ coordinator.Token) error {
			<-ctx.Done()
			<-end
			return nil
		}, partition.WithHealth(&health), partition.WithDrain(3*time.Second))
		f.settle(time.Second, p)
		p.cancel()
		time.Sleep(time.Second)
		if got := probe(health.Ready()); got != "503 stopping: context canceled\n" || len(p.p.Holds()) != 1 {
			t.Errorf("while it drains: %q, holds %v", got, p.p.Holds())
		}
		<-p.done
		if got := probe(health.Live()); got != "503 work still runs after its drain\n" || len(p.p.Holds()) != 0 {
			t.Errorf("after the drain: %q, holds %v", got, p.p.Holds())
		}
		close(end)
		time.Sleep(time.Second)
		if got := probe(health.Live()); got != "200 ok\n" {
			t.Errorf("after the work: %q", got)
		}
	})
}

func TestProbesAreReadOnly(t *testing.T) {
	var health partition.Health
	w := httptest.NewRecorder()
	health.Ready().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}
