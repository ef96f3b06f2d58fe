package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

const (
	serverTimeout = 3 * time.Second // for one server's answer
	maxAnswer     = 64 << 10        // more than any server's reply
)

// Examine asks each server for its state ("srvr") and its bounds of timeouts.
// shortest is a timeout that all grant, or 0.
func (c *Config) Examine(ctx context.Context) (found []driver.Finding, shortest time.Duration) {
	resolved := c.newRotation().resolve(ctx)
	targets := slices.Clone(resolved)
	for _, server := range c.Servers { // one whose name takes longer would be missing
		host, _, _ := net.SplitHostPort(server)
		if !slices.ContainsFunc(resolved, func(t target) bool { return t.host == host }) {
			targets = append(targets, target{addr: server, host: host, err: noAnswerYet(host)})
		}
	}
	found, modes := make([]driver.Finding, len(targets)), make([]string, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets { // at once, so that a silent server delays no other
		wg.Go(func() { found[i], modes[i] = c.examineServer(ctx, t) })
	}
	wg.Wait()
	up := slices.ContainsFunc(found, func(f driver.Finding) bool { return f.Grade != driver.Failure })
	leaders := 0
	for _, mode := range modes {
		if mode == "leader" || mode == "standalone" {
			leaders++
		}
	}
	if leaders > 1 {
		found = append(found, driver.Found(driver.Failure, "servers",
			"%d of them are leaders", leaders).
			So("the URL names servers of different ensembles: a lock held in one is free in the other"))
	}
	if !up {
		return found, 0 // no server could tell the bounds
	}
	var serving []target
	for i, f := range found[:len(targets)] {
		if f.Grade != driver.Failure {
			serving = append(serving, targets[i])
		}
	}
	f, shortest := c.examineBounds(ctx, serving)
	return append(found, f), shortest
}

// bounds are what a server grants: minSessionTimeout and maxSessionTimeout.
type bounds struct{ shortest, longest time.Duration }

// examineBounds finds out and compares the bounds of the servers that are up.
// Each session moves between the servers, and must keep its TTL: see
// checkHello.
func (c *Config) examineBounds(
	ctx context.Context, servers []target,
) (f driver.Finding, shortest time.Duration) {
	granted, errs := make([]bounds, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, t := range servers {
		wg.Go(func() { granted[i], errs[i] = c.boundsOf(ctx, t) })
	}
	wg.Wait()
	var all []bounds
	var texts, unknown []string
	for i, b := range granted {
		if errs[i] != nil {
			unknown = append(unknown, fmt.Sprintf("%s grants no session: %v", servers[i].addr, errs[i]))
			continue
		}
		all = append(all, b)
		texts = append(texts, fmt.Sprintf("%s %v to %v", servers[i].addr, b.shortest, b.longest))
	}
	const names = "minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks"
	one := slices.Compact(all)
	switch {
	case len(one) == 0:
		return driver.Found(driver.Failure, "TTL", "no session: %v", errors.Join(errs...)), 0
	case len(one) > 1:
		return driver.Found(driver.Failure, "TTL", "the servers grant different ones: %s (%s)",
			strings.Join(append(texts, unknown...), ", "), names).
			So("give all servers the same bounds: a session that reaches a server with " +
				"a shorter one is lost, and its holders may be notified too late"), 0
	case len(unknown) > 0:
		return driver.Found(driver.Warning, "TTL", "%v to %v (%s), but %s",
			one[0].shortest, one[0].longest, names, strings.Join(unknown, ", ")).
			So("check again when these servers answer: all must have the same bounds"), one[0].shortest
	}
	return driver.Found(driver.Fine, "TTL", "%v to %v (%s)",
		one[0].shortest, one[0].longest, names), one[0].shortest
}

func (c *Config) boundsOf(ctx context.Context, t target) (b bounds, err error) {
	for ask, granted := range map[time.Duration]*time.Duration{
		time.Millisecond: &b.shortest, math.MaxInt32 * time.Millisecond: &b.longest,
	} {
		answer, err := c.endSessionAt(ctx, t, hello{timeout: ask})
		if err != nil {
			return b, err
		}
		*granted = answer.timeout
	}
	return b, nil
}

// examineServer asks one server with a four-letter word in plain text. The mode
// is empty if the server does not report it.
func (c *Config) examineServer(ctx context.Context, t target) (_ driver.Finding, mode string) {
	about := "server " + t.addr
	if host, _, err := net.SplitHostPort(t.addr); err == nil && host != t.host {
		about += " (" + t.host + ")"
	}
	var text string
	began := time.Now()
	err := c.exchange(ctx, t, serverTimeout, func(conn io.ReadWriter) (err error) {
		if _, err = conn.Write([]byte("srvr")); err != nil {
			return err
		}
		answer, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
		if text = string(answer); text != "" {
			err = nil // some servers reset the connection
		}
		return err
	})
	took := time.Since(began).Round(10 * time.Microsecond)
	switch mode = field(text, "Mode"); {
	case err != nil:
		return driver.Found(driver.Failure, about, "no answer: %v", err).
			So("is the server running, is the address right, and does a firewall let it through?"), ""
	case mode != "":
		version, _, _ := strings.Cut(field(text, "Zookeeper version"), "-")
		return driver.Found(driver.Fine, about, "ZooKeeper %s, %s, answers in %v",
			version, mode, took), mode
	case strings.Contains(text, "not currently serving"):
		return driver.Found(driver.Failure, about, "is up and does not serve: it has no quorum").
			So("a majority of the servers must be up and connected to each other"), ""
	}
	return driver.Found(driver.Note, about, "is up and does not answer srvr").
		So("put srvr on its list of four-letter words (4lw.commands.whitelist) to see more"), ""
}

// field is the value of a field in the reply to srvr.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}
