package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// stage has the worker processes and their events.
type stage struct {
	url, name string
	ttl       time.Duration
	ledger    ledger
	events    chan event
	readers   sync.WaitGroup
	workers   []*process

	interrupted map[int64]bool // tokens whose worker was killed or stopped

	afterKill, afterStop time.Duration
}

// process is one worker process.
type process struct {
	id  int
	cmd *exec.Cmd
}

// newStage uses the URL's TTL, or one that the service grants by default, and a
// new name, so that two demos on one server are independent.
func newStage(raw string, l ledger) (*stage, error) {
	u, query, _ := strings.Cut(raw, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("DEMO_URL has a query that cannot be parsed")
	}
	if q.Get("ttl") == "" {
		q.Set("ttl", "5s")
	}
	ttl, err := time.ParseDuration(q.Get("ttl"))
	if err != nil || ttl <= 0 {
		return nil, fmt.Errorf("DEMO_URL: ttl %q is not a positive duration", q.Get("ttl"))
	}
	return &stage{
		url: u + "?" + q.Encode(), name: "demo-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		ttl: ttl, ledger: l, events: make(chan event, 1024), interrupted: map[int64]bool{},
	}, nil
}

// hire starts one more worker.
func (s *stage) hire() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{id: len(s.workers) + 1}
	p.cmd = exec.Command(self, "-worker", strconv.Itoa(p.id), "-url", s.url, "-name", s.name, "-ledger", s.ledger.path)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	s.workers = append(s.workers, p)
	s.readers.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				s.events <- e
			}
		}
	})
	return nil
}

// until prints events until a wanted one, for at most the given time.
func (s *stage) until(ctx context.Context, bound time.Duration, what string, wanted func(event) bool) error {
	timeout := time.NewTimer(bound)
	defer timeout.Stop()
	for {
		select {
		case e := <-s.events:
			s.show(e)
			if wanted(e) {
				return nil
			}
		case <-timeout.C:
			return fmt.Errorf("waited %v for %s (service %s)", bound, what, withoutUser(s.url))
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}

func (s *stage) show(e event) {
	switch e.Kind {
	case "granted":
		fmt.Printf("  worker %d has the lock, token %d\n", e.Worker, e.Token)
	case "released":
	default:
		fmt.Printf("  worker %d, token %d: %s: %s\n", e.Worker, e.Token, e.Kind, e.Note)
	}
}

// watch prints a number of grants.
func (s *stage) watch(ctx context.Context, grants int, bound time.Duration) error {
	return s.until(ctx, bound, "the workers to be granted the lock", func(e event) bool {
		if e.Kind == "granted" {
			grants--
		}
		return grants <= 0
	})
}

// holder waits for a new grant and returns its holder, which is then in the
// middle of its work.
func (s *stage) holder(ctx context.Context) (*process, int64, error) {
	var got event
	err := s.until(ctx, 10*time.Second, "a grant", func(e event) bool {
		got = e
		return e.Kind == "granted"
	})
	if err != nil {
		return nil, 0, err
	}
	return s.workers[got.Worker-1], got.Token, nil
}

// interrupt sends a signal to the holder of a token in the middle of its work.
func (s *stage) interrupt(p *process, token int64, sig os.Signal) {
	time.Sleep(60 * time.Millisecond) // between its second and its third write
	s.interrupted[token] = true
	_ = p.cmd.Process.Signal(sig) // if the process has ended, the ledger shows it
}

// successor waits for a grant after the given token.
func (s *stage) successor(ctx context.Context, token int64, bound time.Duration) error {
	return s.until(ctx, bound, "a successor", func(e event) bool { return e.Kind == "granted" && e.Token > token })
}

// end stops all workers and waits for them. It may be called twice.
func (s *stage) end() {
	for _, p := range s.workers {
		_ = p.cmd.Process.Signal(sigCont)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	deadline := time.AfterFunc(5*time.Second, func() {
		for _, p := range s.workers {
			_ = p.cmd.Process.Kill()
		}
	})
	defer deadline.Stop()
	go func() {
		for range s.events { // unblocks senders
			continue
		}
	}()
	s.readers.Wait()
	for _, p := range s.workers {
		_ = p.cmd.Wait()
	}
	s.workers = nil
}

// withoutUser removes user and password from a URL.
func withoutUser(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if at := strings.LastIndexByte(rest, '@'); ok && at >= 0 {
		return scheme + "://" + rest[at+1:]
	}
	return raw
}
