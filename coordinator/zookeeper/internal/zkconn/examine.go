package zkconn

import (
	"context"
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

// Examine asks each server for its state ("srvr"), and the service for its
// bounds of timeouts.
func (c *Config) Examine(ctx context.Context) []driver.Finding {
	targets := newRotation(c.Servers).resolve(ctx)
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
		return found // no server could tell the bounds
	}
	shortest, err := c.endSession(ctx, hello{timeout: time.Millisecond})
	if err != nil {
		return append(found, driver.Found(driver.Failure, "TTL", "no session: %v", err))
	}
	longest, err := c.endSession(ctx, hello{timeout: math.MaxInt32 * time.Millisecond})
	if err != nil {
		return append(found, driver.Found(driver.Failure, "TTL", "no session: %v", err))
	}
	return append(found, driver.Found(driver.Fine, "TTL",
		"%v to %v (minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
		shortest.timeout, longest.timeout))
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
