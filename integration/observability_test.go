package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe"
	"github.com/baton-go/baton/coordinator/observe/promobserve"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

const (
	dashboardFile = "../docs/observability/dashboard.json"
	alertsFile    = "../docs/observability/alerts.yaml"
	observeDoc    = "../docs/observability.md"
)

// series are the values of each label, "le" left out, of each name that a scrape has shown.
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

// work has two clients of a service in memory do what moves every metric, in virtual time, and returns what was scraped after it.
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

		rw, err := rwlock.New(a, "reports/daily")
		must(err)
		w, err := rw.Lock(ctx)
		must(err)
		r, err := rw.RLock(w.Context())
		must(err)
		must(w.Unlock(ctx)) // a downgrade
		must(r.Unlock(ctx))

		// The service refuses, for a while, to let go of what was released, and then to join.
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
		must(a.Close(ctx))
		must(b.Close(ctx))
	})
	return scrape(t, metrics)
}

// check reports what an expression says that the series do not bear out.
func (s series) check(t *testing.T, where, expr string) (used []string) {
	t.Helper()
	e, err := parser.ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return nil
	}
	foreign := []string{"job", "instance"} // which Prometheus adds
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			used = append(used, n.Name)
			has, exists := s[n.Name]
			if !exists {
				t.Errorf("%s: there is no metric %q", where, n.Name)
				return nil
			}
			for _, m := range n.LabelMatchers {
				values, labeled := has[m.Name]
				switch {
				case m.Name == labels.MetricName || slices.Contains(foreign, m.Name):
				case !labeled:
					t.Errorf("%s: %s has no label %q", where, n.Name, m.Name)
				case !strings.HasPrefix(m.Value, "$") && !slices.ContainsFunc(values, m.Matches):
					t.Errorf("%s: %s has never %s; it has %q", where, n.Name, m, slices.Compact(slices.Sorted(slices.Values(values))))
				}
			}
		case *parser.AggregateExpr:
			for _, by := range n.Grouping {
				known := slices.Contains(foreign, by)
				for _, inner := range parser.ExtractSelectors(n.Expr) {
					for _, m := range inner {
						_, labeled := s[m.Value][by]
						known = known || m.Name == labels.MetricName && labeled
					}
				}
				if !known {
					t.Errorf("%s: grouped by %q, which nothing in it has: %s", where, by, n)
				}
			}
		}
		return nil
	})
	return used
}

// panel is what this test reads of a dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

// TestDashboardAndAlertsSpeakOfWhatIsThere: each name, label and value in them shows in a scrape after real work, and all that shows is in the
// dashboard.
func TestDashboardAndAlertsSpeakOfWhatIsThere(t *testing.T) {
	all := work(t)
	for _, m := range observe.Metrics() {
		name := m.Name
		if m.Type == observe.Histogram {
			name += "_bucket"
		}
		if all[name] == nil {
			t.Errorf("%s does not show in the scrape", name)
		}
	}
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels     []panel
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	variable := regexp.MustCompile(`\$([a-z]+)`)
	variables := []string{"datasource"}
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
		query, ok := v.Query.(map[string]any)
		if !ok {
			continue
		}
		m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(query["query"].(string))
		if m == nil || all[m[1]] == nil || m[2] != "job" && all[m[1]][m[2]] == nil {
			t.Errorf("variable %s: %v", v.Name, query["query"])
		}
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range all.check(t, p.Title, target.Expr) {
				shown[name] = true
			}
			for _, m := range variable.FindAllStringSubmatch(strings.ReplaceAll(target.Expr, "$__rate_interval", ""), -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("%s: there is no variable $%s", p.Title, m[1])
				}
			}
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !regexp.MustCompile(`by \([^)]*\b` + m[1] + `\b`).MatchString(target.Expr) {
					t.Errorf("%s: the legend shows %s, by which %s is not grouped", p.Title, m[1], target.Expr)
				}
			}
		}
	}
	for name := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		if !shown[name] && !shown[base+"_bucket"] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	doc, err := os.ReadFile(observeDoc)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Baton\\w+)`").FindAllStringSubmatch(string(doc), -1) {
		documented[m[1]] = true
	}
	for _, g := range groups.Groups {
		for _, rule := range g.Rules {
			all.check(t, rule.Alert, rule.Expr)
			if s := rule.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", rule.Alert, s)
			}
			if rule.Annotations["summary"] == "" || len(rule.Annotations["runbook"]) < 40 {
				t.Errorf("%s says too little: %q", rule.Alert, rule.Annotations)
			}
			if !documented[rule.Alert] {
				t.Errorf("%s does not tell of %s", observeDoc, rule.Alert)
			}
			delete(documented, rule.Alert)
		}
	}
	if len(documented) > 0 {
		t.Errorf("%s tells of alerts that do not exist: %v", observeDoc, slices.Collect(maps.Keys(documented)))
	}
}

// TestDashboardIsOneThatGrafanaReads: what its import wants.
func TestDashboardIsOneThatGrafanaReads(t *testing.T) {
	f, err := os.Open(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, _ := io.ReadAll(f)
	var d struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Type    string
			GridPos struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil || d.Title == "" || d.UID == "" || d.SchemaVersion == 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	taken := map[[2]int]int{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != 0 {
					t.Fatalf("panel %d lies over %d", p.ID, other)
				}
				taken[at] = p.ID
			}
		}
	}
}
