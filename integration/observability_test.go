package integration_test

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/baton-go/baton/coordinator/observe"
)

const (
	dashboardFile = "../docs/observability/dashboard.json"
	alertsFile    = "../docs/observability/alerts.yaml"
	observeDoc    = "../docs/observability.md"
)

// check reports names, labels and values of an expression that the series do
// not contain.
func (s series) check(t *testing.T, where, expr string) (used []string) {
	t.Helper()
	e, err := parser.ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return nil
	}
	foreign := []string{"job", "instance"} // added by Prometheus
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			used = append(used, n.Name)
			has, exists := s[n.Name]
			if !exists {
				t.Errorf("%s: no metric %q", where, n.Name)
				return nil
			}
			for _, m := range n.LabelMatchers {
				values, labeled := has[m.Name]
				switch {
				case m.Name == model.MetricNameLabel || slices.Contains(foreign, m.Name):
				case !labeled:
					t.Errorf("%s: %s has no label %q", where, n.Name, m.Name)
				case !strings.HasPrefix(m.Value, "$") && !slices.ContainsFunc(values, m.Matches):
					t.Errorf("%s: %s never has %s; it has %q", where, n.Name, m, slices.Compact(slices.Sorted(slices.Values(values))))
				}
			}
		case *parser.AggregateExpr:
			for _, by := range n.Grouping {
				known := slices.Contains(foreign, by)
				for _, inner := range parser.ExtractSelectors(n.Expr) {
					for _, m := range inner {
						_, labeled := s[m.Value][by]
						known = known || m.Name == model.MetricNameLabel && labeled
					}
				}
				if !known {
					t.Errorf("%s: grouped by the unknown label %q: %s", where, by, n)
				}
			}
		}
		return nil
	})
	return used
}

// panel is the part of a dashboard's panel that this test reads.
type panel struct {
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

// Each name, label and value in it appears in a scrape, and each metric of the
// scrape is in the dashboard.
func TestDashboardMatchesTheMetrics(t *testing.T) {
	all := work(t)
	for _, m := range observe.Metrics() {
		name := m.Name
		if m.Type == observe.Histogram {
			name += "_bucket"
		}
		if all[name] == nil {
			t.Errorf("%s is not in the scrape", name)
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
					t.Errorf("%s: no variable $%s", p.Title, m[1])
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
}

// Prometheus loads the rules, each name, label and value in them appears in a
// scrape, and the documentation describes each alert.
func TestAlertsMatchTheMetrics(t *testing.T) {
	all := work(t)
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	doc, err := os.ReadFile(observeDoc)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Baton\\w+)`").FindAllStringSubmatch(string(doc), -1) {
		documented[m[1]] = true
	}
	for _, g := range groups.Groups {
		for _, rule := range g.Rules {
			all.check(t, rule.Alert, rule.Expr)
			if s := rule.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", rule.Alert, s)
			}
			if rule.Annotations["summary"] == "" || len(rule.Annotations["runbook"]) < 40 {
				t.Errorf("%s has incomplete annotations: %q", rule.Alert, rule.Annotations)
			}
			if !documented[rule.Alert] {
				t.Errorf("%s does not describe %s", observeDoc, rule.Alert)
			}
			delete(documented, rule.Alert)
		}
	}
	if len(documented) > 0 {
		t.Errorf("%s describes alerts that do not exist: %v", observeDoc, slices.Collect(maps.Keys(documented)))
	}
}

// It has the fields that Grafana's import requires.
func TestGrafanaCanImportTheDashboard(t *testing.T) {
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
					t.Fatalf("panel %d overlaps %d", p.ID, other)
				}
				taken[at] = p.ID
			}
		}
	}
}
