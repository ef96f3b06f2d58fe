package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// surveyed is the line "m/a" as Survey shows it, and a wait for its change that is under way.
func surveyed(t *testing.T, s *session) (places []driver.Place, changed <-chan error) {
	t.Helper()
	v, change, err := s.Survey(soon(t, 5*time.Second), "m/a")
	ok(t, err)
	if !v.Last {
		t.Error("somebody is behind one who stands nowhere")
	}
	ended := make(chan error, 1)
	go func() { ended <- change(t.Context()) }()
	return v.Ahead, ended
}

// TestSurveyIsOneRequest: for the line and the watch; and whoever comes or goes ends the wait.
func TestSurveyIsOneRequest(t *testing.T) {
	f, tr, s := openTree(t)
	other := openFake(t, f, testTTL)
	first := testFollow(t, other, 1)
	lists := f.count(opChildren)
	expect := func(want int, requests int, change func()) {
		t.Helper()
		places, changed := surveyed(t, s)
		if len(places) != want {
			t.Errorf("%d places; want %d", len(places), want)
		}
		if n := f.count(opChildren) - lists; n != requests || tr.watched() == 0 {
			t.Errorf("%d listings; want %d; %d watches", n, requests, tr.watched())
		}
		select {
		case err := <-changed:
			t.Errorf("ended before anything has changed: %v", err)
		default:
		}
		change()
		select {
		case err := <-changed:
			ok(t, err)
		case <-time.After(5 * time.Second):
			t.Fatal("not told of the change")
		}
	}
	var second driver.Joined
	expect(1, 1, func() { second = testFollow(t, other, 2) })
	expect(2, 2, func() { ok(t, other.Leave(soon(t, time.Second), "m/a", first.Place)) })
	expect(1, 3, func() { ok(t, other.Leave(soon(t, time.Second), "m/a", second.Place)) })
}

// TestSurveyOfTheSameTakesNoRequest: who gave up waiting has left the watch.
func TestSurveyOfTheSameTakesNoRequest(t *testing.T) {
	f, _, s := openTree(t)
	testFollow(t, s, 1)
	lists := f.count(opChildren)
	for range 3 {
		v, change, err := s.Survey(soon(t, time.Second), "m/a")
		ok(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := change(ctx); !errors.Is(err, context.Canceled) || len(v.Ahead) != 1 {
			t.Errorf("%v; %d places", err, len(v.Ahead))
		}
	}
	if n := f.count(opChildren) - lists; n != 1 {
		t.Errorf("%d listings; want one", n)
	}
}

// TestSurveyGoesOnAfterAReconnect: the watch went with the connection, and what has happened meanwhile is not missed.
func TestSurveyGoesOnAfterAReconnect(t *testing.T) {
	f, tr, s := openTree(t)
	testFollow(t, s, 1)
	_, changed := surveyed(t, s)
	f.cut()
	select {
	case err := <-changed:
		ok(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("waits on for a watch that is gone")
	}
	tr.put("/app/m/a/lock-0000000099", "")
	if places, _ := surveyed(t, s); len(places) != 2 {
		t.Errorf("%d places; want two", len(places))
	}
}

// TestSurveyOfAnEmptyLine: nobody stands in it, whether there is a node for it or not; a stray is refused.
func TestSurveyOfAnEmptyLine(t *testing.T) {
	_, tr, s := openTree(t)
	for range 2 {
		v, _, err := s.Survey(soon(t, time.Second), "m/b")
		if err != nil || len(v.Ahead) != 0 {
			t.Errorf("%v; %d places", err, len(v.Ahead))
		}
		tr.put("/app/m", "")
		tr.put("/app/m/b", "")
	}
	tr.put("/app/m/b/stray", "")
	eventually(t, "a stray is refused", func() bool { // when the notice has come
		_, _, err := s.Survey(soon(t, time.Second), "m/b")
		return errors.Is(err, driver.ErrRefused)
	})
}
