package integration_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe/promobserve"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// series maps each name of a scrape to its labels, without "le", and their
// values.
type series map[string]map[string][]string

// scrape reads a collector as Prometheus does.
func scrape(t *testing.T, c prometheus.Collector) series {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	reply, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	parse := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parse.TextToMetricFamilies(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	seen := series{}
	for name, family := range families {
		names := []string{name}
		if family.GetType().String() == "HISTOGRAM" {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, n := range names {
			seen[n] = map[string][]string{}
			if strings.HasSuffix(n, "_bucket") {
				seen[n]["le"] = nil
			}
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					seen[n][l.GetName()] = append(seen[n][l.GetName()], l.GetValue())
				}
			}
		}
	}
	return seen
}

// work makes two clients of a service in memory change every metric, in virtual
// time, and returns a scrape.
func work(t *testing.T) series {
	metrics := promobserve.New(promobserve.WithClass(func(_, name string) string { class, _, _ := strings.Cut(name, "/"); return class }))
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		open := func() (*memory.Driver, *coordinator.Client) {
			link := svc.Driver()
			c, err := coordinator.New(link, coordinator.WithObserver(metrics), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			return link, c
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		link, a := open()
		_, b := open()
		ctx := t.Context()
		ma, err := mutex.New(a, "orders/7", mutex.WithMaxHold(time.Minute))
		must(err)
		mb, err := mutex.New(b, "orders/7")
		must(err)

		l, err := ma.Lock(ctx)
		must(err)
		again, err := ma.Lock(l.Context())
		must(err)
		must(again.Unlock(ctx))
		if _, err := mb.TryLock(ctx); !errors.Is(err, coordinator.ErrTaken) {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := mb.Lock(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Minute, func() { must(l.Unlock(ctx)) })
		other, err := mb.Lock(ctx) // contended
		must(err)
		must(other.Unlock(ctx))

		kept, err := mutex.New(a, "orders/8", mutex.WithRetain(time.Minute))
		must(err)
		first, err := kept.Lock(ctx)
		must(err)
		must(first.Unlock(ctx))
		local, err := kept.Lock(ctx)
		must(err)
		asking, err := mutex.New(b, "orders/8")
		must(err)
		time.AfterFunc(time.Second, func() { must(local.Unlock(ctx)) })
		asked, err := asking.Lock(ctx)
		must(err)
		must(asked.Unlock(ctx))

		rw, err := rwlock.New(a, "reports/daily")
		must(err)
		w, err := rw.Lock(ctx)
		must(err)
		r, err := rw.RLock(w.Context())
		must(err)
		must(w.Unlock(ctx)) // a downgrade
		must(r.Unlock(ctx))

		// The service refuses releases for a while, and then joins.
		l, err = ma.Lock(ctx)
		must(err)
		svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpLeave || r.Op == memory.OpJoin {
				return memory.Fate{Err: coordinator.ErrRefused}
			}
			return memory.Fate{}
		})
		if err := l.Unlock(ctx); !errors.Is(err, coordinator.ErrRefused) {
			t.Fatal(err)
		}
		if _, err := mb.Lock(ctx); !errors.Is(err, coordinator.ErrRefused) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		svc.OnRequest(nil)
		time.Sleep(time.Minute)

		e, err := election.New(a, "leader")
		must(err)
		term, err := e.Campaign(ctx, nil)
		must(err)
		link.Cut()
		time.Sleep(5 * time.Second) // suspended
		away, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := ma.Lock(away); !errors.Is(err, coordinator.ErrUnavailable) {
			t.Fatal(err)
		}
		link.Reset()
		link.Heal()
		time.Sleep(5 * time.Second) // resumed
		must(term.Err())
		time.Sleep(time.Minute)
		svc.Expire(term.Session())
		synctest.Wait()
		l, err = ma.Lock(ctx)
		must(err)
		time.Sleep(time.Second)
		for _, entry := range svc.Snapshot("mutex/orders%2F7") {
			svc.Remove("mutex/orders%2F7", entry.Key)
		}
		time.Sleep(time.Second)
		if err := l.Err(); !errors.Is(err, coordinator.ErrRemoved) {
			t.Fatal(err)
		}
		far, c := open()
		far.Cut()
		away, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := c.Session(away); !errors.Is(err, coordinator.ErrUnavailable) {
			t.Fatal(err)
		}
		must(a.Close(ctx))
		must(b.Close(ctx))
		far.Heal()
		must(c.Close(ctx))
	})
	return scrape(t, metrics)
}
