package zookeeper

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Check reads one node's Stat, after a sync: another session may have seen the
// entry go, and this one's server may not have heard of that (K1). If the
// connection breaks between the two, the next server is no older than the
// answer to the sync.
//
// A leader that has lost its quorum answers a sync until it finds out, which
// takes a tick. A transaction would not have that gap, and would be a write:
// see Guard.
func (s *session) Check(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	if err := s.checkQueue(queue); err != nil {
		return err
	}
	n, ok := parseNode(key)
	if !ok || checkKey(queue, n.Place) != nil {
		return driver.ErrGone
	}
	if err := s.sync(ctx, s.path(queue)); err != nil {
		return err
	}
	stat, err := s.stat(ctx, s.below(queue, n.Key))
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrInvalidPath): // a key is what another process says it is
		return driver.Wrap(driver.ErrGone, err)
	case err == nil && n.tokenOr(stat.Czxid) != token:
		return driver.ErrGone
	}
	return err
}

const (
	serverPatience = 3 * time.Second // for one server's answer
	longAnswer     = 64 << 10        // more than any server says of itself
	clockGap       = time.Second     // that nobody minds in listings

	probe     = driver.Queue("baton/examine") // where Examine stands for a moment; no recipe has its kind
	probeMode = "x"
)

// Examine asks each server what it says of itself ("srvr"), and opens and ends
// three sessions: two for the bounds of timeouts, and one that makes and
// deletes a node, for the service's time. A shared layout has no place for that
// node.
func (d *service) Examine(ctx context.Context) []driver.Finding {
	var found []driver.Finding
	versions, leaders, up := map[string]bool{}, 0, 0
	targets := newRotation(d.servers).resolve(ctx)
	said, all := make([]driver.Finding, len(targets)), make([]vitals, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets { // at once: those that are silent must not use up the others' time
		wg.Go(func() { said[i], all[i] = d.examineServer(ctx, t) })
	}
	wg.Wait()
	for i, f := range said {
		v := all[i]
		found = append(found, f)
		if f.Grade != driver.Failure {
			up++
		}
		if v.version != "" {
			versions[v.version] = true
		}
		if v.mode == "leader" || v.mode == "standalone" {
			leaders++
		}
	}
	if len(versions) > 1 {
		found = append(found, driver.Found(driver.Warning, "versions", "servers run different versions").So("finish the upgrade"))
	}
	if leaders > 1 {
		found = append(found, driver.Found(driver.Failure, "servers", "%d of them lead, each for itself", leaders).
			So("the URL names servers of different ensembles: what is locked in one is free in the other"))
	}
	if up == 0 {
		return found // to wait for a session would be to wait in vain
	}
	shortest, longest, err := d.bounds(ctx)
	if err != nil {
		return append(found, driver.Found(driver.Failure, "TTL", "no session: %v", err))
	}
	found = append(found, driver.Found(driver.Fine, "TTL", "%v to %v (minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
		shortest, longest))
	if d.layout == nil {
		found = append(found, d.examineClock(ctx, longest))
	}
	return found
}

// vitals are what a server says of itself.
type vitals struct{ version, mode, latency, waiting string }

// examineServer asks one server. Its four-letter words are plain text on a
// connection of their own.
func (d *service) examineServer(ctx context.Context, t target) (driver.Finding, vitals) {
	about := "server " + t.addr
	if host, _, err := net.SplitHostPort(t.addr); err == nil && host != t.host {
		about += " (" + t.host + ")"
	}
	began := time.Now()
	text, err := d.ask(ctx, t, "srvr")
	took := time.Since(began).Round(10 * time.Microsecond)
	v := parseVitals(text)
	switch {
	case err != nil:
		return driver.Found(driver.Failure, about, "no answer: %v", err).
			So("is the server running, is the address right, and does a firewall let it through?"), v
	case v.mode != "":
		return driver.Found(driver.Fine, about, "ZooKeeper %s, %s, answers in %v; latency min/avg/max %s ms, %s requests waiting",
			v.version, v.mode, took, v.latency, v.waiting), v
	case strings.Contains(text, "not currently serving"):
		return driver.Found(driver.Failure, about, "is up and does not serve: it has no quorum").
			So("a majority of the servers has to be up and to reach each other"), v
	}
	return driver.Found(driver.Note, about, "is up and says nothing of itself").
		So("put srvr on its list of four-letter words (4lw.commands.whitelist) to see more"), v
}

// ask sends a four-letter word, and returns the answer.
func (d *service) ask(ctx context.Context, t target, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	l := newLink(d.servers, d.tls, serverPatience, nil)
	defer l.cancel()
	conn, err := l.connect(ctx, t)
	if err != nil {
		return "", err
	}
	defer func() { _ = closeNow(conn) }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err = conn.Write([]byte(word)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, longAnswer))
	if len(text) > 0 {
		err = nil // some servers cut the connection instead of ending it
	}
	return string(text), err
}

func parseVitals(text string) (v vitals) {
	fields := map[string]*string{
		"Zookeeper version": &v.version, "Mode": &v.mode, "Latency min/avg/max": &v.latency, "Outstanding": &v.waiting,
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ": "); ok && fields[key] != nil {
			*fields[key] = strings.TrimSpace(value)
		}
	}
	v.version, _, _ = strings.Cut(v.version, "-")
	return v
}

// bounds are the shortest and the longest timeout of a session: what the
// service makes of one that is out of all bounds.
func (d *service) bounds(ctx context.Context) (shortest, longest time.Duration, err error) {
	for _, b := range []struct {
		ask time.Duration
		got *time.Duration
	}{{time.Millisecond, &shortest}, {math.MaxInt32 * time.Millisecond, &longest}} {
		s, err := d.open(ctx, b.ask)
		if err == nil {
			*b.got = b.ask
			_ = s.Close(ctx)
			continue
		}
		_, refused := s.own.link.sessions()
		if refused.session == 0 {
			return 0, 0, err
		}
		*b.got = refused.timeout
	}
	return shortest, longest, nil
}

// examineClock compares this machine's clock with the leader's, by a node that
// it makes for a moment. Baton counts durations alone, so nothing depends on
// it; but the times in listings are those of many machines.
func (d *service) examineClock(ctx context.Context, ttl time.Duration) driver.Finding {
	gap, err := d.gap(ctx, ttl)
	switch {
	case err != nil:
		return driver.Found(driver.Failure, "rights", "no node could be made and deleted: %v", err).
			So("does the chroot's access list let this user create and delete?")
	case gap.Abs() <= clockGap:
		return driver.Found(driver.Fine, "clock", "the leader's is within %v of this machine's", clockGap)
	}
	return driver.Found(driver.Note, "clock", "the leader's is %v off this machine's", gap.Round(time.Millisecond)).
		So("locks do not depend on it, and the times in listings do: see that all machines follow a time server")
}

func (d *service) gap(ctx context.Context, ttl time.Duration) (gap time.Duration, err error) {
	s, err := d.open(ctx, ttl)
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close(ctx) }()
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	began := time.Now()
	j, err := s.Join(ctx, probe, driver.Contender{ID: hex.EncodeToString(id[:]), Mode: probeMode})
	if err != nil {
		return 0, err
	}
	middle := began.Add(time.Since(began) / 2)
	stat, err := s.stat(ctx, s.path(probe)+"/"+j.Place.Key)
	if err != nil {
		return 0, err
	}
	return time.UnixMilli(stat.Ctime).Sub(middle), s.Leave(ctx, probe, j.Place)
}

var _ driver.Examiner = (*service)(nil)

// Queues lists the kinds, then the names of each, then the children of each of
// those, all of a kind under way at once. It begins with a sync: another
// session may have joined a queue for good, and this one's server may not have
// heard of that.
//
// What is not readable is an error, and not left out: whoever asks which locks
// are held must not be told less.
func (s *session) Queues(ctx context.Context) ([]driver.Queue, error) {
	if err := s.sync(ctx, s.top()); err != nil {
		return nil, err
	}
	kinds, err := s.list(ctx, s.top())
	if err != nil {
		return nil, err
	}
	var queues []driver.Queue
	for _, kind := range kinds {
		if s.root == "" && kind == reserved {
			continue
		}
		names, err := s.list(ctx, s.root+"/"+kind)
		if err != nil {
			return nil, err
		}
		standing, err := s.standingIn(ctx, kind, names)
		if err != nil {
			return nil, err
		}
		queues = append(queues, standing...)
	}
	return queues, nil
}

// standingIn returns those of the names of a kind in whose queues somebody
// stands. Records are no queues, and neither is what other programs have beside
// them.
func (s *session) standingIn(ctx context.Context, kind string, names []string) ([]driver.Queue, error) {
	var queues []driver.Queue
	listings := make([]*reply[[]string], 0, len(names))
	for _, name := range names {
		queue := driver.Queue(kind + "/" + name)
		if s.checkQueue(queue) != nil {
			continue
		}
		listing, err := start(ctx, s, s.slots, func() ([]string, error) {
			children, _, err := s.conn.Children(s.path(queue))
			return children, err
		})
		if err != nil {
			return nil, err
		}
		queues, listings = append(queues, queue), append(listings, listing)
	}
	stands := make(map[driver.Queue]bool)
	for i, listing := range listings {
		children, err := await(ctx, s, listing)
		if err = unlisted(s.path(queues[i]), err); err != nil {
			return nil, err
		}
		stands[queues[i]] = slices.ContainsFunc(children, func(name string) bool {
			_, ok := parseNode(name)
			return ok
		})
	}
	return slices.DeleteFunc(queues, func(queue driver.Queue) bool { return !stands[queue] }), nil
}

// list reads the names of the children of a node; there are none if it is not
// there.
func (s *session) list(ctx context.Context, node string) ([]string, error) {
	names, err := call(ctx, s, func() ([]string, error) {
		names, _, err := s.conn.Children(node)
		return names, err
	})
	return names, unlisted(node, err)
}

// unlisted is the error of a listing, nil if the node is not there. A refusal
// names the node, which the caller does not know.
func unlisted(node string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, driver.ErrRefused):
		return driver.Wrap(driver.ErrRefused, fmt.Errorf("zookeeper: the children of %s: %w", node, err))
	}
	return err
}

// Queues is refused.
func (g *foreignSession) Queues(context.Context) ([]driver.Queue, error) {
	return nil, invalid("queues cannot be listed in layout %s, whose nodes do not say what is a queue: name the one that you want", g.layout.name)
}

// Remove deletes one node, after Check: its name is never another entry's, so
// between the two it can only go. Its successor node goes with it, in the same
// transaction, since whoever follows waits with the successor node.
func (s *session) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	if err := s.Check(ctx, queue, key, token); err != nil {
		return err
	}
	n, _ := parseNode(key)
	tr := ownEntry{key: key}
	if n.ID != "" { // nobody else's entries have one
		tr.successor = n.successor()
	}
	return s.depart(ctx, queue, n, tr, false)
}

// Remove deletes a node as the other clients do, who have no successor nodes. A
// node without a sequence number is refused: whoever had it can make it again
// under the same name.
func (g *foreignSession) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	if err := g.checkQueue(queue); err != nil {
		return err
	}
	switch form := g.layout.form(queue); {
	case form == nil:
		return g.noForm(queue)
	case form.unordered:
		return invalid("queue %q: in layout %s the names of entries come back, so that nobody can remove exactly one", queue, g.layout.name)
	}
	if err := g.Check(ctx, queue, key, token); err != nil {
		return err
	}
	return g.remove(ctx, g.below(queue, key))
}
