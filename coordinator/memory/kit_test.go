package memory_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestClientsSessionsAreExpired(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		more, other := open(t, w.d), open(t, w.svc.Driver())
		join(t, w.s)
		if !w.d.Expire() {
			t.Error("Expire = false")
		}
		for _, s := range []session{w.s, more} {
			wantErr(t, s.Renew(t.Context()), driver.ErrSessionLost)
		}
		must(t, other.Renew(t.Context()))
		wantEntries(t, w.svc, 0)
		if w.d.Expire() {
			t.Error("Expire again = true")
		}
	})
}

func TestGrantIsRemovedByItsToken(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		own := join(t, w.s)
		gone := start(func() error { return w.s.Watch(t.Context(), queue, own.Place) })
		if w.svc.RemoveGrant(own.Token + 1) {
			t.Error("one that is not there was removed")
		}
		wantEntries(t, w.svc, 1)
		if !w.svc.RemoveGrant(own.Token) {
			t.Error("RemoveGrant = false")
		}
		must(t, <-gone)
		must(t, w.s.Renew(t.Context()))
	})
}
