package integration_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// It also leaves the probe's queue empty. On a slow machine it finds that the
// TTL is short; it must not do so in all of a few runs.
func TestExaminePassesAHealthyService(t *testing.T) {
	each(t, func(t *testing.T, s site) {
		c := s.client(t, 40*time.Second)
		abouts := map[string]bool{}
		const runs = 5
		for run := 1; ; run++ {
			slow := false
			for _, f := range c.Examine(t.Context()) {
				t.Logf("%-8v %s: %s. %s", f.Grade, f.About, f.Text, f.Advice)
				kind, _, _ := strings.Cut(f.About, " ")
				abouts[kind] = true
				if f.Grade == driver.Warning && strings.Contains(f.Advice, "take a TTL of") && run < runs {
					slow = true
				} else if f.Grade > driver.Note {
					t.Error("finding on a healthy service")
				}
			}
			if !slow {
				break
			}
		}
		service := map[string][]string{"etcd": {"member"}, "zk": {"server"}}[s.service]
		for _, kind := range append(service, "TTL", "session", "reads", "acquire") {
			if !abouts[kind] {
				t.Errorf("no finding about %q", kind)
			}
		}
		session, err := engine.Of(c).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, err := session.List(t.Context(), "baton/probe", 0); err != nil || len(left) != 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

func TestExamineNamesTheServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		down := freeAddr(t)
		c := s.client(t, 10*time.Second, append([]string{down}, s.endpoints...)...)
		failed := 0
		for _, f := range c.Examine(t.Context()) {
			if f.Grade == driver.Failure {
				failed++
				if !strings.Contains(f.About, down) || f.Advice == "" {
					t.Errorf("%+v, but only %s is down", f, down)
				}
			}
		}
		if failed != 1 {
			t.Errorf("%d failures, want the one of %s", failed, down)
		}
	})
}

// Servers that accept connections and never answer must not use up the time of
// the others.
func TestExamineReportsServersBesideSilentOnes(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		var silent []string
		for range 4 {
			l, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			silent = append(silent, l.Addr().String())
		}
		c := s.client(t, 10*time.Second, append(slices.Clone(silent), s.endpoints...)...)
		failed := 0
		for _, f := range c.Examine(within(t, 10*time.Second)) { // as in baton doctor
			if what, _, _ := strings.Cut(f.About, " "); f.Grade != driver.Failure || what != "member" && what != "server" {
				continue // the session's, for which little time may be left
			}
			failed++
			if !slices.ContainsFunc(silent, func(addr string) bool { return strings.Contains(f.About, addr) }) {
				t.Errorf("%+v, but only %s are silent", f, silent)
			}
		}
		if failed != len(silent) {
			t.Errorf("%d failures, want %d", failed, len(silent))
		}
	})
}

// No server answers, and Examine ends with its context.
func TestExamineWithoutServersGivesAdvice(t *testing.T) {
	for _, service := range []string{"etcd", "zk"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			c, err := coordinator.Open(service+"://"+freeAddr(t), logTo(t))
			if err != nil {
				t.Fatal(err)
			}
			closeAtEnd(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			worst := driver.Fine
			for _, f := range c.Examine(ctx) {
				worst = max(worst, f.Grade)
				t.Logf("%-8v %s: %s. %s", f.Grade, f.About, f.Text, f.Advice)
				if f.About == "session" && f.Advice == "" {
					t.Error("no advice")
				}
			}
			if worst != driver.Failure {
				t.Errorf("the worst grade is %v", worst)
			}
		})
	}
}
