package etcd

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// followed waits until the session has a tape of the line that has read it.
func followed(t *testing.T, s *session) {
	t.Helper()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, ok := s.taped(t.Context(), line); ok {
			return
		}
	}
	t.Fatal("nobody follows the line")
}

func whole(t *testing.T, s *session) (ids []string) {
	t.Helper()
	v, err := s.Ahead(t.Context(), line, driver.Place{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Ahead {
		ids = append(ids, p.ID+p.Mode)
	}
	return ids
}

// TestWholeLineIsReadFromTheTape: without a request, and as new as everything that the session has finished.
func TestWholeLineIsReadFromTheTape(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	a, b := join(t, s, contender()), join(t, other, contender())
	result := watch(t.Context(), s, a.Place, b.Place)
	followed(t, s)
	want := []string{a.Place.ID + "x", b.Place.ID + "x"}
	check := func(after string) {
		t.Helper()
		var got []string
		if n := f.sent(func() { got = whole(t, s) }); n != 0 {
			t.Errorf("%d requests after %s", n, after)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
	check("the first reading")
	d := join(t, s, contender())
	want = append(want, d.Place.ID+"x")
	check("a join")
	e := join(t, s, contender())
	_ = s.Forget(t.Context(), line, e.Place.ID)
	check("a forgotten one")
	p, err := s.Convert(t.Context(), line, a, "r", nil) // and so the Watch ends
	if err != nil || told(t, result) != nil {
		t.Fatal(err)
	}
	want[0] = a.Place.ID + "r"
	check("a conversion")
	if p, err = s.Convert(t.Context(), line, driver.Joined{Place: p, Token: a.Token}, "x", nil); err != nil {
		t.Fatal(err)
	}
	want[0] = a.Place.ID + "x"
	check("a conversion back")
	if err := s.Write(t.Context(), line, p, []byte("value")); err != nil {
		t.Fatal(err)
	}
	check("a write")
	if err := s.Leave(t.Context(), line, p); err != nil {
		t.Fatal(err)
	}
	want = want[1:]
	check("a leave")
}

// TestTapeOfAMemberThatIsBehindIsNotRead: then the line is read by quorum.
func TestTapeOfAMemberThatIsBehindIsNotRead(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	a, b := join(t, s, contender()), join(t, s, contender())
	watch(t.Context(), s, a.Place, b.Place)
	followed(t, s)
	catchUp := f.lag()
	d := join(t, s, contender())
	n := f.sent(func() {
		if got := whole(t, s); len(got) != 3 || got[2] != d.Place.ID+"x" {
			t.Errorf("%q lacks the own entry", got)
		}
	})
	if n != 1 {
		t.Errorf("%d requests", n)
	}
	catchUp()
}

// TestTapeEndsWithItsUsers: and with the session. Those who come when it is about to end have another one.
func TestTapeEndsWithItsUsers(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	a, b := join(t, s, contender()), join(t, s, contender())
	var ending sync.WaitGroup
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		result := watch(ctx, s, a.Place, b.Place)
		f.watching(t, 1, "/mutex/")
		cancel()
		if err := told(t, result); err == nil {
			t.Fatal("no error of the context")
		}
		time.Sleep(linger + time.Millisecond)
		ending.Go(func() { _ = s.Leave(t.Context(), line, join(t, s, contender()).Place) }) // ends the tape, now or in a moment
	}
	ending.Wait()
	result := watch(t.Context(), s, a.Place, b.Place)
	followed(t, s)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := told(t, result); err == nil {
		t.Error("a Watch of an ended session returns nil")
	}
	f.watching(t, 0, "/mutex/")
}
