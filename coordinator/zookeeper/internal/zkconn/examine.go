package zkconn

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

const (
	serverPatience = 3 * time.Second // for one server's answer
	longAnswer     = 64 << 10        // more than any server says of itself
)

// Examine asks each server what it says of itself ("srvr"), and opens and ends
// two sessions for the bounds of timeouts. longest is the longest timeout; 0 if
// there is no session to be had.
func (c *Config) Examine(ctx context.Context) (found []driver.Finding, longest time.Duration) {
	versions, leaders, up := map[string]bool{}, 0, 0
	targets := newRotation(c.Servers).resolve(ctx)
	said, all := make([]driver.Finding, len(targets)), make([]vitals, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets { // at once: those that are silent must not use up the others' time
		wg.Go(func() { said[i], all[i] = c.examineServer(ctx, t) })
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
		found = append(found, driver.Found(driver.Warning, "versions", "servers run different versions").
			So("finish the upgrade"))
	}
	if leaders > 1 {
		found = append(found, driver.Found(driver.Failure, "servers",
			"%d of them lead, each for itself", leaders).
			So("the URL names servers of different ensembles: what is locked in one is free in the other"))
	}
	if up == 0 {
		return found, 0 // to wait for a session would be to wait in vain
	}
	shortest, err := c.granted(ctx, time.Millisecond)
	if err == nil {
		longest, err = c.granted(ctx, math.MaxInt32*time.Millisecond)
	}
	if err != nil {
		return append(found, driver.Found(driver.Failure, "TTL", "no session: %v", err)), 0
	}
	return append(found, driver.Found(driver.Fine, "TTL",
		"%v to %v (minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
		shortest, longest)), longest
}

// vitals are what a server says of itself.
type vitals struct{ version, mode, latency, waiting string }

// examineServer asks one server. Its four-letter words are plain text on a
// connection of their own.
func (c *Config) examineServer(ctx context.Context, t target) (driver.Finding, vitals) {
	about := "server " + t.addr
	if host, _, err := net.SplitHostPort(t.addr); err == nil && host != t.host {
		about += " (" + t.host + ")"
	}
	began := time.Now()
	text, err := c.ask(ctx, t, "srvr")
	took := time.Since(began).Round(10 * time.Microsecond)
	v := parseVitals(text)
	switch {
	case err != nil:
		return driver.Found(driver.Failure, about, "no answer: %v", err).
			So("is the server running, is the address right, and does a firewall let it through?"), v
	case v.mode != "":
		return driver.Found(driver.Fine, about,
			"ZooKeeper %s, %s, answers in %v; latency min/avg/max %s ms, %s requests waiting",
			v.version, v.mode, took, v.latency, v.waiting), v
	case strings.Contains(text, "not currently serving"):
		return driver.Found(driver.Failure, about, "is up and does not serve: it has no quorum").
			So("a majority of the servers has to be up and to reach each other"), v
	}
	return driver.Found(driver.Note, about, "is up and says nothing of itself").
		So("put srvr on its list of four-letter words (4lw.commands.whitelist) to see more"), v
}

// ask sends a four-letter word, and returns the answer.
func (c *Config) ask(ctx context.Context, t target, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	conn, err := t.connect(ctx, c.TLS)
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
		"Zookeeper version":   &v.version,
		"Mode":                &v.mode,
		"Latency min/avg/max": &v.latency,
		"Outstanding":         &v.waiting,
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ": "); ok && fields[key] != nil {
			*fields[key] = strings.TrimSpace(value)
		}
	}
	v.version, _, _ = strings.Cut(v.version, "-")
	return v
}

// granted is the timeout that the service makes of one that may be out of its
// bounds.
func (c *Config) granted(ctx context.Context, ask time.Duration) (time.Duration, error) {
	s, err := c.open(ctx, ask)
	if err == nil {
		_ = s.Close(ctx)
		return ask, nil
	}
	if _, refused := s.link.sessions(); refused.session != 0 {
		return refused.timeout, nil
	}
	return 0, err
}
