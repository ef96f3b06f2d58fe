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

// P1, P2: a request arrives after a later one, or after the end of its entry.
func TestLateWriteIsNotApplied(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	own := join(t, s, contender())
	for _, before := range []bool{false, true} { // as the first write, and after others
		late := delay(f, func() { _ = s.Write(t.Context(), queue, own.Place, []byte("late")) })
		write(t, s, own.Place, "new")
		late(t)
		entries, err := s.List(t.Context(), queue, 0)
		if err != nil || len(entries) != 1 || string(entries[0].Value) != "new" {
			t.Errorf("written before %v: %+v, %v", before, entries, err)
		}
	}
	late := delay(f, func() { _ = s.Write(t.Context(), queue, own.Place, []byte("late")) })
	if err := s.Leave(t.Context(), queue, own.Place); err != nil {
		t.Fatal(err)
	}
	late(t)
	if got := ids(t, s); len(got) != 0 {
		t.Errorf("a ghost in the queue: %q", got)
	}
}

// P1: what was applied without an answer is overwritten, at one request more.
func TestWriteAfterALostReply(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	own := join(t, s, contender())
	f.loseReply()
	if err := s.Write(t.Context(), queue, own.Place, []byte("one")); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatal(err)
	}
	if n := f.sent(func() { write(t, s, own.Place, "two") }); n != 2 {
		t.Errorf("%d requests", n)
	}
	if n := f.sent(func() { write(t, s, own.Place, "three") }); n != 1 {
		t.Errorf("then %d requests", n)
	}
}

// P2
func TestWriteNeedsItsEntry(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	own := join(t, s, contender())
	old := own.Place
	own.Place = convert(t, s, own, "y")
	rev := f.rev
	for name, call := range map[string]func() error{
		"old place":       func() error { return s.Write(t.Context(), queue, old, nil) },
		"another session": func() error { return other.Write(t.Context(), queue, own.Place, nil) },
		"another queue":   func() error { return s.Write(t.Context(), "mutex/y", own.Place, nil) },
		"nothing":         func() error { return s.Write(t.Context(), queue, driver.Place{}, nil) },
	} {
		if err := call(); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.rev != rev {
		t.Error("something was written")
	}
}

// What is remembered of entries goes with them.
func TestWritesAreForgotten(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	for name, end := range map[string]func(own driver.Joined) error{
		"leave":   func(own driver.Joined) error { return s.Leave(t.Context(), queue, own.Place) },
		"forget":  func(own driver.Joined) error { return s.Forget(t.Context(), queue, own.Place.ID) },
		"convert": func(own driver.Joined) error { convert(t, s, own, "y"); return nil },
		"removed": func(own driver.Joined) error {
			e, _ := s.keys.Entry(queue, own.Place)
			f.mu.Lock()
			delete(f.kvs, e.Key)
			f.mu.Unlock()
			if err := s.Write(t.Context(), queue, own.Place, nil); !errors.Is(err, driver.ErrGone) {
				return err
			}
			return nil
		},
	} {
		own := join(t, s, contender())
		write(t, s, own.Place, "v")
		if err := end(own); err != nil || len(s.writes.last) != 0 {
			t.Errorf("%s: %v, %v is remembered", name, err, s.writes.last)
		}
	}
}
