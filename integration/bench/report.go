package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is a list of rows of cells, the first of which is the header.
type table [][]string

// markdown writes a table. The given number of first columns are text, the
// others numbers.
func (t table) markdown(texts int) string {
	var b strings.Builder
	for i, row := range t {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", texts) + strings.Repeat("--:|", len(row)-texts) + "\n")
		}
	}
	return b.String()
}

func (t table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// full has a row for each subject of each case.
func (r *Result) full() table {
	t := table{{
		"case", "subject", "µs/grant", "p50", "p99", "grants/s", "× floor", "peer ÷ Baton", "requests", "events", "B in", "B out",
		"server µs", "client µs", "allocs",
	}}
	for _, c := range r.Cases {
		for _, s := range c.Subjects {
			m, n := s.Median, s.Counts
			allocs := figure(m.Allocs)
			if m.Allocs == 0 {
				allocs = ""
			}
			t = append(t, []string{
				c.Name, s.Name, micros(m.Time), micros(m.P50), micros(m.P99), figure(float64(int(1e9 / m.Time))), ratioText(s.OverFloor),
				ratioText(s.PeerOver), figure(n.Requests), figure(n.Events), figure(n.In), figure(n.Out),
				micros(m.ServerTime), micros(m.ClientTime), allocs,
			})
		}
	}
	return t
}

func ratioText(v float64) string {
	if v == 0 {
		return ""
	}
	return figure(v)
}

// titles are the descriptions of the forms.
var titles = map[form]string{
	pairs:   "lock and unlock, uncontended",
	turns:   "handoff, %d contenders",
	names:   "%d goroutines of one client, each with names of its own",
	fleet:   "%d clients, each with one of 1,000 names at random",
	fresh:   "%d clients, each with new names",
	permits: "%d contenders for 10 permits",
}

// brief has a row for each case on single nodes: floor, Baton, and the best
// peer. With few it has only the representative cases.
func (r *Result) brief(few bool) table {
	t := table{{"µs per grant", "service", "floor", "Baton", "× floor", "best peer", "which is", "best peer ÷ Baton"}}
	for _, c := range r.Cases {
		if strings.Contains(c.Place, "-") || strings.HasPrefix(c.Name, "scale/") && c.Contenders != 64 {
			continue
		}
		title := titles[form(c.Form)]
		if strings.Contains(title, "%") {
			title = fmt.Sprintf(title, c.Contenders)
		}
		for i := range c.Subjects {
			if s := &c.Subjects[i]; s.Role == Baton && (!few || s.PeerOver > 0 && c.representative()) {
				t = append(t, c.briefly(s, title))
			}
		}
	}
	return t
}

// representative reports whether a case is in the short table.
func (r *CaseResult) representative() bool {
	switch form(r.Form) {
	case pairs:
		return strings.HasPrefix(r.Name, "pair/")
	case turns:
		return r.Contenders == 16
	case fleet:
		return true
	}
	return false
}

// briefly returns the row of one of Baton's recipes.
func (r *CaseResult) briefly(s *SubjectResult, title string) []string {
	row := []string{
		strings.TrimPrefix(s.Name, "Baton ") + ": " + title, r.Place,
		"", micros(r.figure(s.Median)), ratioText(s.OverFloor), "", "", "",
	}
	if floor := r.best(Floor); floor != nil {
		row[2] = micros(r.figure(floor.Median))
	}
	if peer := r.best(Peer); peer != nil && s.PeerOver > 0 {
		row[5], row[6], row[7] = micros(r.figure(peer.Median)), peer.Name, figure(s.PeerOver)+" ×"
	}
	return row
}

func (r *Result) waitersTable() table {
	t := table{{"on", "what", "waiters", "heap B each", "heap in use", "stack", "goroutines", "joined in", "drained in"}}
	for _, w := range r.Waiters {
		drained := ""
		if w.Drain > 0 {
			drained = short(w.Drain)
		}
		t = append(t, []string{
			w.Place, w.Subject, figure(float64(w.Waiters)), figure(w.Heap), figure(w.Inuse), figure(w.Stack), figure(w.Goroutines), short(w.Join), drained,
		})
	}
	return t
}

func (r *Result) barsTable() table {
	t := table{{"bar", "what", "wanted", "measured", ""}}
	for _, b := range r.Bars() {
		t = append(t, []string{b.Name, b.What, b.bound(), figure(b.Measured) + b.Unit, b.verdict()})
	}
	return t
}

// setting describes the machine, the servers and the peers.
func (r *Result) setting() string {
	var servers []string
	if v := r.Servers["etcd"]; v != "" {
		servers = append(servers, "etcd "+v)
	}
	if v := r.Servers["zookeeper"]; v != "" {
		servers = append(servers, "ZooKeeper "+v)
	}
	m := r.Machine
	return fmt.Sprintf("%s, %d cores for servers and clients together, %s, %s; %s; peers: %s; %d rounds; the run took %s",
		m.CPU, m.Cores, m.OS, m.Go, strings.Join(servers, ", "), r.Peers, r.Rounds, short(r.Took))
}

// Print writes all figures for a terminal.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", r.setting())
	for _, t := range []table{r.full(), r.waitersTable(), r.keptTable(), r.barsTable()} {
		if len(t) == 1 {
			continue
		}
		if err := t.print(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}
