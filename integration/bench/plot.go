package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// colours by subject, the same in all plots.
var colours = map[string]string{
	"floor": "#9aa0a6", "Baton": "#1a73e8", "etcd concurrency.Mutex": "#d93025", "go-zookeeper Lock": "#e37400",
	"Curator": "#188038",
}

// series is one line of a plot, with a value for each x; 0 is none.
type series struct {
	name   string
	values []float64
}

// panel is one of the adjacent plots in a picture.
type panel struct {
	title  string
	xs     []string
	series []series
}

// picture is one SVG: panels with the same unit. With lines, values are joined;
// otherwise each is a bar.
type picture struct {
	title, unit, x string
	panels         []panel
	lines, log     bool
}

const (
	panelWidth, panelHeight    = 440, 300
	leftEdge, topEdge, gap     = 62, 62, 70
	legendHeight, bottomHeight = 26, 46
)

// svg draws axes, a grid and a legend. It has its own background, for pages
// with a dark one.
func (p picture) svg() string {
	var b strings.Builder
	names := p.names()
	width := leftEdge + len(p.panels)*(panelWidth+gap)
	height := topEdge + panelHeight + bottomHeight + legendHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(&b, float64(width)/2, 22, "middle", 16, p.title)
	for i, panel := range p.panels {
		p.panel(&b, panel, float64(leftEdge+i*(panelWidth+gap)))
	}
	x := float64(leftEdge)
	for _, name := range names {
		y := float64(height - 14)
		fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="12" height="12" fill="%s"/>`+"\n", x, y-10, colour(name))
		text(&b, x+17, y, "start", 12, name)
		x += 40 + 6.6*float64(len([]rune(name)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p picture) names() (all []string) {
	seen := map[string]bool{}
	for _, panel := range p.panels {
		for _, s := range panel.series {
			if !seen[s.name] {
				seen[s.name] = true
				all = append(all, s.name)
			}
		}
	}
	return all
}

func colour(name string) string {
	if c := colours[name]; c != "" {
		return c
	}
	return "#5f6368"
}

func text(b *strings.Builder, x, y float64, anchor string, size int, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="#202124">%s</text>`+"\n", x, y, anchor, size, html.EscapeString(s))
}

// axis is a vertical axis from low to high.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
}

func (p picture) axis(of panel) axis {
	low, high := math.Inf(1), 0.0
	for _, s := range of.series {
		for _, v := range s.values {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if high == 0 {
		low, high = 1, 1
	}
	if !p.log {
		step := niceStep(high)
		a := axis{high: step * math.Ceil(high/step)}
		for v := 0.0; v <= a.high+step/2; v += step {
			a.ticks = append(a.ticks, v)
		}
		return a
	}
	a := axis{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high*1.01))), log: true}
	for v := a.low; v <= a.high*1.01; v *= 10 {
		a.ticks = append(a.ticks, v)
		for _, k := range []float64{2, 5} {
			if v*k < a.high {
				a.ticks = append(a.ticks, v*k)
			}
		}
	}
	return a
}

// niceStep returns a step of about a fifth of the highest value.
func niceStep(high float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(high/5)))
	for _, k := range []float64{1, 2, 5, 10} {
		if high/(k*base) <= 6 {
			return k * base
		}
	}
	return 10 * base
}

// y is where a value is drawn.
func (a axis) y(v float64) float64 {
	part := v / a.high
	if a.log {
		part = math.Log(max(v, a.low)/a.low) / math.Log(a.high/a.low)
	}
	return topEdge + panelHeight*(1-part)
}

func (p picture) panel(b *strings.Builder, panel panel, left float64) {
	a := p.axis(panel)
	text(b, left+panelWidth/2, topEdge-14, "middle", 13, panel.title)
	for _, v := range a.ticks {
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#e8eaed"/>`+"\n", left, left+panelWidth, a.y(v), a.y(v))
		text(b, left-6, a.y(v)+4, "end", 11, figure(v))
	}
	fmt.Fprintf(b, `<path d="M%.1f %dV%dH%.1f" fill="none" stroke="#202124"/>`+"\n", left, topEdge, topEdge+panelHeight, left+panelWidth)
	text(b, left-6, topEdge-14, "end", 11, p.unit)
	slot := panelWidth / float64(len(panel.xs))
	for i, x := range panel.xs {
		text(b, left+slot*(float64(i)+0.5), topEdge+panelHeight+17, "middle", 11, x)
	}
	text(b, left+panelWidth/2, topEdge+panelHeight+35, "middle", 11, p.x)
	for k, s := range panel.series {
		if p.lines {
			drawLine(b, s, a, left, slot)
		} else {
			drawBars(b, s, a, left, slot, k, len(panel.series))
		}
	}
}

func drawLine(b *strings.Builder, s series, a axis, left, slot float64) {
	var points []string
	for i, v := range s.values {
		if v > 0 {
			x := left + slot*(float64(i)+0.5)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, a.y(v)))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%s: %s</title></circle>`+"\n", x, a.y(v), colour(s.name),
				html.EscapeString(s.name), figure(v))
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour(s.name))
}

func drawBars(b *strings.Builder, s series, a axis, left, slot float64, k, of int) {
	wide := slot * 0.8 / float64(of)
	for i, v := range s.values {
		if v <= 0 {
			continue
		}
		x := left + slot*(float64(i)+0.1) + wide*float64(k)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s: %s</title></rect>`+"\n", x, a.y(v), wide*0.92,
			topEdge+panelHeight-a.y(v), colour(s.name), html.EscapeString(s.name), figure(v))
		text(b, x+wide*0.46, a.y(v)-4, "middle", 10, figure(v))
	}
}

// label is the subject's name in plots.
func (s *SubjectResult) label() string {
	switch s.Role {
	case Floor:
		return "floor"
	case Baton:
		return "Baton"
	}
	if strings.HasPrefix(s.Name, "Curator") { // for each of its recipes
		return "Curator"
	}
	return s.Name
}

// byContenders is a panel of a figure of a form's subjects by the number of
// contenders.
func (r *Result) byContenders(f, place string, numbers []int, of func(*SubjectResult) float64) panel {
	p := panel{title: map[string]string{"etcd": "etcd", "zookeeper": "ZooKeeper"}[place]}
	at := map[string]int{}
	for i, n := range numbers {
		p.xs = append(p.xs, fmt.Sprint(n))
		for _, c := range r.Cases {
			if c.Name != fmt.Sprintf("%s/%s/%d", f, place, n) {
				continue
			}
			for k := range c.Subjects {
				s := &c.Subjects[k]
				if _, known := at[s.label()]; !known {
					at[s.label()] = len(p.series)
					p.series = append(p.series, series{s.label(), make([]float64, len(numbers))})
				}
				p.series[at[s.label()]].values[i] = of(s)
			}
		}
	}
	return p
}

// byCase is a panel of bars: adjacent cases, each of the mutex or the
// semaphore.
func (r *Result) byCase(place string, cases []string, of func(*SubjectResult) float64) panel {
	p := panel{title: map[string]string{"etcd": "etcd", "zookeeper": "ZooKeeper"}[place]}
	at := map[string]int{}
	for i, name := range cases {
		p.xs = append(p.xs, map[string]string{"pair": "mutex", "permit": "semaphore", "fleet": "64 clients, 1,000 names", "fresh": "64 clients, new names", "permits": "10 permits for 64"}[name])
		for _, c := range r.Cases {
			if c.Name != name+"/"+place {
				continue
			}
			for k := range c.Subjects {
				s := &c.Subjects[k]
				if s.Role == Baton && !s.comparable() {
					continue
				}
				if _, known := at[s.label()]; !known {
					at[s.label()] = len(p.series)
					p.series = append(p.series, series{s.label(), make([]float64, len(cases))})
				}
				p.series[at[s.label()]].values[i] = of(s)
			}
		}
	}
	return p
}

// pictures returns all plots by file name.
func (r *Result) pictures() map[string]picture {
	micros := func(s *SubjectResult) float64 { return s.Median.Time / 1e3 }
	server := func(s *SubjectResult) float64 { return s.Median.ServerTime / 1e3 }
	bytes := func(s *SubjectResult) float64 { return s.Counts.In }
	rate := func(s *SubjectResult) float64 { return 1e9 / s.Median.Time }
	both := func(f func(place string) panel) []panel { return []panel{f("etcd"), f("zookeeper")} }
	counted := func(form string, of func(*SubjectResult) float64) []panel {
		return both(func(place string) panel { return r.byContenders(form, place, contenderCounts, of) })
	}
	return map[string]picture{
		"turns.svg": {title: "Handoff: time from grant to grant", unit: "µs", x: "contenders", lines: true, log: true, panels: counted("turns", micros)},
		"bytes.svg": {title: "Bytes that the clients receive per grant", unit: "B", x: "contenders", lines: true, log: true, panels: counted("turns", bytes)},
		"cpu.svg":   {title: "Processor time of the server per grant", unit: "µs", x: "contenders", lines: true, log: true, panels: counted("turns", server)},
		"scale.svg": {
			title: "Grants per second, goroutines of one client with names of their own", unit: "1/s", x: "goroutines", lines: true,
			panels: both(func(place string) panel { return r.byContenders("scale", place, scale, rate) }),
		},
		"pair.svg": {title: "Acquire and release, uncontended", unit: "µs", panels: both(func(place string) panel {
			return r.byCase(place, []string{"pair", "permit"}, func(s *SubjectResult) float64 { return s.Median.P50 / 1e3 })
		})},
		"names.svg": {title: "Grants per second", unit: "1/s", panels: both(func(place string) panel {
			return r.byCase(place, []string{"fleet", "fresh", "permits"}, rate)
		})},
	}
}
