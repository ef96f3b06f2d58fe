package zkserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// wordTimeout bounds one four-letter word. A starting server accepts the
// connection and does not answer; a paused one never does.
const wordTimeout = 2 * time.Second

// wordPause is the pause between two attempts.
const wordPause = 50 * time.Millisecond

// ErrNotServing means that the server runs but has no quorum, or is still
// starting.
var ErrNotServing = errors.New("zkserver: the server is not serving")

// Word sends one of ZooKeeper's four-letter words ("mntr", "cons", "dump") and
// returns the answer. It retries until ctx ends: a server that stalls or is
// starting must not fail the test.
func Word(ctx context.Context, addr, word string) (string, error) {
	for {
		answer, err := ask(ctx, addr, word)
		if err == nil {
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(wordPause):
		}
	}
}

// ask sends a word once.
func ask(ctx context.Context, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("zkserver: %s: %w", word, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("zkserver: %s: %w", word, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("zkserver: %s: %w", word, err)
	}
	if len(answer) == 0 { // even an empty answer ends with a newline
		return "", fmt.Errorf("%w: %s: connection closed", ErrNotServing, word)
	}
	if strings.Contains(string(answer), "not currently serving requests") {
		return "", fmt.Errorf("%w: %s", ErrNotServing, strings.TrimSpace(string(answer)))
	}
	return string(answer), nil
}

// Status is the answer to "srvr".
type Status struct {
	Version     string // "3.8.0"
	Mode        string // "standalone", "leader", "follower"
	Zxid        int64
	Connections int
	Nodes       int // znodes
}

// Stat asks a server for its status, once. Waiting for a server polls it.
func Stat(ctx context.Context, addr string) (Status, error) {
	answer, err := ask(ctx, addr, "srvr")
	if err != nil {
		return Status{}, err
	}
	s := parseStatus(answer)
	if s.Mode == "" {
		return Status{}, fmt.Errorf("%w: no mode in %q", ErrNotServing, answer)
	}
	return s, nil
}

func parseStatus(answer string) Status {
	var s Status
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Zookeeper version":
			// "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on …"
			s.Version = value[:max(0, strings.IndexAny(value+"-", "-, "))]
		case "Mode":
			s.Mode = value
		case "Zxid":
			s.Zxid, _ = strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64)
		case "Connections":
			s.Connections, _ = strconv.Atoi(value)
		case "Node count":
			s.Nodes, _ = strconv.Atoi(value)
		}
	}
	return s
}

// Monitor returns the answer to "mntr" without the prefix "zk_": "watch_count",
// "outstanding_requests", "num_alive_connections". Values that are not whole
// numbers are left out.
func Monitor(ctx context.Context, addr string) (map[string]int64, error) {
	answer, err := Word(ctx, addr, "mntr")
	if err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			values[strings.TrimPrefix(key, "zk_")] = n
		}
	}
	return values, nil
}

// Watches returns the paths watched at one server, by session ("wchc"). A
// session has its watches at the server to which it is connected.
func Watches(ctx context.Context, addr string) (map[int64][]string, error) {
	answer, err := Word(ctx, addr, "wchc")
	if err != nil {
		return nil, err
	}
	return bySession(answer), nil
}

// Dump is one server's knowledge of sessions ("dump").
type Dump struct {
	// Ephemerals has the paths of each session that has any.
	Ephemerals map[int64][]string
	// Sessions are the live sessions. Only a leader or a single server knows
	// all of them with certainty; a follower knows those connected to it.
	Sessions []int64
}

// Sessions asks a server for its sessions and their ephemeral nodes.
func Sessions(ctx context.Context, addr string) (Dump, error) {
	answer, err := Word(ctx, addr, "dump")
	if err != nil {
		return Dump{}, err
	}
	return parseDump(answer), nil
}

// parseDump reads two parts: the expiry queue, buckets with the sessions that
// expire together, and the ephemerals.
func parseDump(answer string) Dump {
	queue, rest, _ := strings.Cut(answer, "ephemeral nodes dump:")
	ephemerals, _, _ := strings.Cut(rest, "Connections dump:")
	d := Dump{Ephemerals: bySession(ephemerals)}
	seen := map[int64]bool{}
	for _, field := range strings.Fields(queue) {
		if id, ok := sessionID(field); ok && !seen[id] {
			seen[id] = true
			d.Sessions = append(d.Sessions, id)
		}
	}
	return d
}

// bySession reads blocks of a line with a session and lines with its paths.
func bySession(answer string) map[int64][]string {
	paths := map[int64][]string{}
	var id int64
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if next, ok := sessionID(strings.TrimSuffix(line, ":")); ok {
			id = next
		} else if strings.HasPrefix(line, "/") {
			paths[id] = append(paths[id], line)
		}
	}
	return paths
}

// sessionID parses "0x1000a5ff…". IDs with the top bit set are negative.
func sessionID(s string) (int64, bool) {
	hex, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	return int64(id), err == nil
}
