package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

const quorumTTL = 4 * time.Second

func init() { proc.Register("quorum", quorumWorker) }

// independent is a service of a quorum, which a test may kill and restart.
type independent struct {
	site
	kill    func()
	restart func(context.Context) error
}

// fiveServices starts three etcds and two ZooKeepers.
func fiveServices(t *testing.T) (all []independent) {
	t.Helper()
	for i := range 5 {
		if i < 3 {
			n := servers.NewEtcd(t, etcdserver.Options{}).Node(0)
			all = append(all, independent{site{"etcd", []string{n.Endpoint()}}, n.Kill, n.Restart})
			continue
		}
		n := servers.NewZooKeeper(t, zkserver.Options{}).Node(0)
		all = append(all, independent{site{"zk", []string{n.Endpoint()}}, n.Kill, n.Restart})
	}
	return all
}

// proxies gives a caller a network of its own.
func proxies(
	t *testing.T, all []independent, ttl time.Duration,
) (urls []string, links []*netproxy.Proxy) {
	t.Helper()
	for _, s := range all {
		p := servers.Proxy(t, s.endpoints)
		links, urls = append(links, p), append(urls, s.url(ttl, p.Addr()))
	}
	return urls, links
}

func openQuorum(name string, urls []string) (*quorum.Quorum, []*coordinator.Client, error) {
	var clients []*coordinator.Client
	for _, url := range urls {
		c, err := coordinator.Open(url, silent)
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	q, err := quorum.New(clients, name, quorum.Majority)
	return q, clients, err
}

// quorumHold is one hold, by the clock of all processes. To is 0 in its first
// record.
type quorumHold struct {
	Who      string
	Tokens   map[string]coordinator.Token // by the identity of the service
	From, To int64
}

// TestQuorumUnderKillsAndPartitions: eight processes lock one name at five
// services. They are killed and replaced, and cut off from some services
// silently; first one service, and then two others are killed and come back. No
// two hold at once, tokens rise at a shared member, the lock is granted in each
// phase once the networks work, and nothing is left.
func TestQuorumUnderKillsAndPartitions(t *testing.T) {
	const processes, lasts = 8, 8 * time.Second
	all, name, dir, seed := fiveServices(t), fresh(t)("quorum"), t.TempDir(), rand.Uint64()
	t.Logf("seed %d", seed)
	r, started := rand.New(rand.NewPCG(seed, 0)), 0
	links, urls := make([][]*netproxy.Proxy, processes), make([][]string, processes)
	start := func(slot int) (w worker) {
		started++
		w.who = fmt.Sprintf("process-%d", started)
		args := append([]string{w.who, name, dir, strconv.FormatUint(seed, 10)}, urls[slot]...)
		w.Child = proc.Start(t, "quorum", args...)
		return w
	}
	var workers []worker
	for slot := range processes {
		urls[slot], links[slot] = proxies(t, all, quorumTTL)
		workers = append(workers, start(slot))
	}
	ids := identities(t, all)
	killed := make(map[string]int64)
	var phases []int64
	for _, away := range [][]int{{}, {0}, {1, 4}, {}} {
		for _, i := range away {
			all[i].kill()
		}
		phases = append(phases, history.Now())
		for end := time.Now().Add(max(lasts, chaosTime(t)/4)); time.Now().Before(end); {
			slot := r.IntN(processes)
			for _, i := range r.Perm(5)[:1+r.IntN(5)] {
				links[slot][i].Cut()
			}
			await.For(t.Context(), time.Duration(1000+r.IntN(2000))*time.Millisecond)
			if dies := r.IntN(processes); r.IntN(2) == 0 {
				killed[workers[dies].who] = history.Now()
				workers[dies].Kill()
				workers[dies] = start(dies)
			}
			if r.IntN(2) == 0 {
				healAll(links)
			}
		}
		healAll(links)
		before := len(loadQuorum(t, dir, killed))
		await.Until(t, fmt.Sprintf("a grant without %v", away), func() bool { return len(loadQuorum(t, dir, killed)) > before })
		for _, i := range away {
			if err := all[i].restart(await.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, w := range workers {
		w.Send("end")
	}
	for _, w := range workers {
		var wrong string
		if w.Recv(&wrong); wrong != "" {
			t.Errorf("%s: %s", w.who, wrong)
		}
	}
	holds := loadQuorum(t, dir, killed)
	checkQuorum(t, holds)
	for n, from := range phases {
		until := history.Forever
		if n+1 < len(phases) {
			until = phases[n+1]
		}
		granted := 0
		for _, h := range holds {
			if h.From > from && h.From < until && (n != 2 || h.Tokens[ids[1]] == 0 && h.Tokens[ids[4]] == 0) {
				granted++
			}
		}
		if t.Logf("phase %d: %d grants", n, granted); granted == 0 {
			t.Errorf("no grant in phase %d", n)
		}
	}
	for _, s := range all {
		s.becomesEmpty(t, name)
	}
}

func healAll(links [][]*netproxy.Proxy) {
	for _, of := range links {
		for _, p := range of {
			p.Heal()
		}
	}
}

func loadQuorum(t *testing.T, dir string, killed map[string]int64) (holds []quorumHold) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.holds"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var h quorumHold
			switch err := json.Unmarshal([]byte(line), &h); {
			case err != nil: // a killed process did not finish it
			case h.To == 0:
				holds = append(holds, h)
			default:
				holds[len(holds)-1] = h
			}
		}
	}
	for i, h := range holds {
		if h.To == 0 {
			holds[i].To = killed[h.Who]
		}
	}
	slices.SortFunc(holds, func(a, b quorumHold) int { return int(a.From - b.From) })
	return holds
}

// identities returns those of services.
func identities(t *testing.T, all []independent) (ids []string) {
	t.Helper()
	for _, s := range all {
		c, err := coordinator.Open(s.url(quorumTTL), silent)
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, c)
		session, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id, err := session.Service(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// tokensOf returns the tokens of a hold by the identities of their services.
func tokensOf(l *quorum.Lock) map[string]coordinator.Token {
	tokens := make(map[string]coordinator.Token)
	for _, s := range l.Sequencers() {
		tokens[s.Service] = s.Token
	}
	return tokens
}

func checkQuorum(t *testing.T, holds []quorumHold) {
	t.Helper()
	for n, later := range holds {
		for _, earlier := range holds[:n] {
			if earlier.To > later.From {
				t.Errorf("%+v and %+v overlap", earlier, later)
			}
			shared := false
			for service, token := range earlier.Tokens {
				if later.Tokens[service] == 0 {
					continue
				}
				if shared = true; later.Tokens[service] <= token {
					t.Errorf("%+v, then %+v", earlier, later)
				}
			}
			if !shared {
				t.Errorf("%+v and %+v share no member", earlier, later)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// quorumWorker locks until it is told to end, and once more: who, name,
// directory, seed, and the URLs.
func quorumWorker(ctx context.Context, io *proc.IO, args []string) error {
	who, name, urls := args[0], args[1], args[4:]
	q, clients, err := openQuorum(name, urls)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(args[2], who+".holds"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	ending := toldToEnd(ctx, io)
	wrong := ""
	for last := false; !last && wrong == ""; {
		select {
		case <-ending:
			last = true
		default:
		}
		err := holdQuorum(ctx, q, who, f)
		if err != nil && (last || !errors.Is(err, context.DeadlineExceeded)) {
			wrong = err.Error() // another one may have been cut off for a minute
		}
	}
	err = io.Send(wrong)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, c := range clients {
		err = errors.Join(err, c.Close(bounded))
	}
	return err
}

// holdQuorum locks once, within a minute, and records its hold.
func holdQuorum(ctx context.Context, q *quorum.Quorum, who string, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l, err := q.Lock(ctx)
	if err != nil {
		return err
	}
	h := quorumHold{Who: who, Tokens: tokensOf(l), From: history.Now()}
	if err := json.NewEncoder(f).Encode(h); err != nil {
		return err
	}
	await.For(l.Context(), time.Duration(1<<rand.IntN(12))*time.Millisecond)
	h.To = history.Now()
	if l.Err() != nil { // a stalled machine may notice that late
		h.To = min(h.To, history.Now()+int64(time.Until(l.Deadline())))
	}
	if err := json.NewEncoder(f).Encode(h); err != nil {
		return err
	}
	if lost := l.Err(); lost != nil {
		_ = l.Unlock(ctx)
		return nil
	}
	// A loss meanwhile and services that do not answer are what is tested.
	if err := l.Unlock(ctx); err != nil && !errors.Is(err, coordinator.ErrSessionLost) &&
		!errors.Is(err, coordinator.ErrUnavailable) {
		return err
	}
	return nil
}
