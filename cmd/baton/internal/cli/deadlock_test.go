package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// TestDeadlockIsShownToAnOperator: inspect shows what a waiter holds, doctor
// the cycle and a command that ends it, and in which the shell runs nothing of
// the names: who may write to a queue chooses those.
func TestDeadlockIsShownToAnOperator(t *testing.T) {
	onStage(t, func(s *stage) {
		if r := s.baton("doctor"); r.code != 0 || strings.Contains(r.out, "deadlock") {
			t.Errorf("doctor without a deadlock: %+v", r)
		}
		on := func(who, name string) *mutex.Mutex { return must(mutex.New(s.client(who), name))(s) }
		ended := make(chan error, 2)
		stock, orders := must(on("web-1", "stock;sh").Lock(s.Context()))(s), must(on("web-2", "orders;sh").Lock(s.Context()))(s)
		for _, w := range []struct {
			who, name string
			holds     *mutex.Lock
		}{{"web-1", "orders;sh", stock}, {"web-2", "stock;sh", orders}} {
			go func() {
				_, err := on(w.who, w.name).Lock(w.holds.Context())
				_ = w.holds.Unlock(s.Context())
				ended <- err
			}()
			time.Sleep(time.Second)
		}
		r := s.baton("inspect", "orders;sh")
		if want := fmt.Sprintf("2: called under mutex stock;sh (token %d)\n", stock.Token()); !strings.HasSuffix(r.out, want) {
			t.Errorf("inspect shows\n%s\nwithout %s", r.out, want)
		}
		r = s.baton("inspect", "orders;sh", "-o", "json")
		if want := fmt.Sprintf(`"under":[{"kind":"mutex","name":"stock;sh","token":%d}]`, stock.Token()); !strings.Contains(r.out, want) {
			t.Errorf("inspect shows %s without %s", r.out, want)
		}
		r = s.baton("doctor")
		if r.code != exitFailed || strings.Count(r.out, "\nwarning  deadlock") != 1 ||
			!strings.Contains(r.out, "web-1 holds mutex/stock%3Bsh") || !strings.Contains(r.out, "web-2 holds mutex/orders%3Bsh") {
			t.Errorf("doctor: %+v", r)
		}
		_, command, _ := strings.Cut(r.out, "remove a waiter: baton ")
		command, _, _ = strings.Cut(command, "\n")
		name := "'orders;sh'"
		if !strings.HasSuffix(command, " "+name) {
			name = "'stock;sh'"
		}
		flags, ok := strings.CutSuffix(command, " "+name)
		if r := s.baton(append(strings.Fields(flags), strings.Trim(name, "'"))...); !ok || r.code != 0 {
			t.Errorf("%s: %+v", command, r)
		}
		if one, other := <-ended, <-ended; errors.Is(one, coordinator.ErrRemoved) == errors.Is(other, coordinator.ErrRemoved) {
			t.Errorf("the calls ended with %v and %v", one, other)
		}
		if r := s.baton("doctor"); r.code != 0 {
			t.Errorf("doctor after it: %+v", r)
		}
	})
}
