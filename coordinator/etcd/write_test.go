package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func write(t *testing.T, s *session, own driver.Place, value string) {
	t.Helper()
	if err := s.Write(t.Context(), queue, own, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// P1
func TestWriteTakesOneRequestAndWakesNobody(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	own, behind := join(t, s, contender()), join(t, other, contender())
	result := awaitGone(t.Context(), other, own.Place)
	f.watching(t, 1, "/mutex/")
	for _, value := range []string{"one", "", "two"} {
		if n := f.sent(func() { write(t, s, own.Place, value) }); n != 1 {
			t.Errorf("%d requests", n)
		}
		entries, err := other.List(t.Context(), queue, 1)
		if err != nil || len(entries) != 1 || string(entries[0].Value) != value ||
			entries[0].Place != own.Place || entries[0].Token != own.Token {
			t.Errorf("%+v, %v", entries, err)
		}
	}
	select {
	case err := <-result:
		t.Errorf("woken: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if v := ahead(t, other, behind.Place); len(v.Ahead) != 1 || v.Ahead[0] != own.Place {
		t.Errorf("%+v", v)
	}
	own.Place = convert(t, s, own, "y")
	for _, value := range []string{"three", "four"} {
		if n := f.sent(func() { write(t, s, own.Place, value) }); n != 1 {
			t.Errorf("converted: %d requests", n)
		}
	}
	// The value goes with the session as before.
	_, _ = c.Revoke(t.Context(), s.Lease)
	if got := ids(t, other); len(got) != 1 || got[0] != behind.Place.ID {
		t.Errorf("queue %q", got)
	}
}

// What is remembered of contenders goes with them.
func TestContendersAreForgotten(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	for name, end := range map[string]func(own driver.Joined) error{
		"leave":  func(own driver.Joined) error { return s.Leave(t.Context(), queue, own.Place) },
		"forget": func(own driver.Joined) error { return s.Forget(t.Context(), queue, own.Place.ID) },
		"convert": func(own driver.Joined) error {
			return s.Leave(t.Context(), queue, convert(t, s, own, "y"))
		},
		"removed": func(own driver.Joined) error {
			e, _ := s.keys.Entry(queue, own.Place)
			f.mu.Lock()
			delete(f.kvs, e.Key)
			f.mu.Unlock()
			if err := s.Leave(t.Context(), queue, own.Place); !errors.Is(err, driver.ErrGone) {
				return err
			}
			return nil
		},
		"refused": func(own driver.Joined) error {
			alone := contender()
			alone.Alone = true
			if _, err := s.Join(t.Context(), queue, alone); !errors.Is(err, driver.ErrTaken) {
				return err
			}
			return s.Leave(t.Context(), queue, own.Place)
		},
	} {
		own := join(t, s, contender())
		write(t, s, own.Place, "v")
		if err := end(own); err != nil || len(s.memory.contenders) != 0 {
			t.Errorf("%s: %v, %v is remembered", name, err, s.memory.contenders)
		}
	}
}
