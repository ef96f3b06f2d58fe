package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestWriteChangesTheValueInOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		own := testJoin(t, s, 1, "x")
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() { waiting <- s.Watch(ctx, "m/a", own.Place) }()
		eventually(t, "the watch", func() bool { return tr.watched() == 1 })
		for i := range 3 {
			value := fmt.Sprint("value ", i)
			ok(t, s.Write(soon(t, 10*time.Second), "m/a", own.Place, []byte(value)))
			if got := testList(t, s, 1); string(got[0].Value) != value || got[0].Token != own.Token {
				t.Errorf("after Write of %q: %+v", value, got)
			}
			if tr.notified() != 0 || tr.watched() != 1 {
				t.Errorf("%d notices, %d watches; want no notice of a write", tr.notified(), tr.watched())
			}
		}
		if n := f.count(opSet); n != 3 {
			t.Errorf("3 writes took %d requests", n)
		}
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v; want only the context to end it", err)
		}
		err := s.Write(soon(t, 10*time.Second), "m/a", own.Place, make([]byte, 64<<10+1))
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Write of too much = %v; want ErrInvalid", err)
		}
	})
}

// TestLateWriteIsNotAppliedAfterALaterOne: the first write has no reply, and
// arrives before the second or after it.
func TestLateWriteIsNotAppliedAfterALaterOne(t *testing.T) {
	for what, fate := range map[string]treeFate{"before": {cut: true}, "after": {late: true, cut: true}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, tr, s := openTree(t)
				own := testJoin(t, s, 1, "x")
				once := false
				tr.on(func(op int32, _ string) treeFate {
					if op == opSet && !once {
						once = true
						return fate
					}
					return treeFate{}
				})
				if err := s.Write(soon(t, 10*time.Second), "m/a", own.Place, []byte("1")); !errors.Is(err, driver.ErrUnavailable) {
					t.Fatalf("Write = %v; want ErrUnavailable", err)
				}
				ok(t, s.Write(soon(t, 10*time.Second), "m/a", own.Place, []byte("2")))
				tr.deliver()
				if got := testList(t, s, 1); string(got[0].Value) != "2" {
					t.Errorf("the value is %q; want that of the later write", got[0].Value)
				}
			})
		})
	}
}
