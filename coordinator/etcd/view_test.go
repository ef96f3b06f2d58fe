package etcd

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

func ahead(t *testing.T, s *session, own driver.Place) driver.View {
	t.Helper()
	v, err := s.Ahead(t.Context(), queue, own)
	check(t, err)
	return v
}

// V1, V2
func TestAheadNeedsAViewAsNewAsItsOwnJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		first := join(t, s, contender())
		catchUp := f.lag()
		me := join(t, s, contender())
		join(t, s, contender()) // behind

		n := f.sent(func() {
			if v := ahead(t, s, me.Place); !slices.Equal(v.Ahead, []driver.Place{first.Place}) {
				t.Errorf("%+v", v)
			}
		})
		if n != 2 {
			t.Errorf("member behind: %d requests", n)
		}
		catchUp()
		if n := f.sent(func() { ahead(t, s, me.Place) }); n != 1 {
			t.Errorf("member at hand: %d requests", n)
		}

		// A view must not show an entry that Watch showed gone.
		catchUp = f.lag()
		_ = s.Leave(t.Context(), queue, first.Place)
		s.Learn(f.rev)
		if v := ahead(t, s, me.Place); len(v.Ahead) != 0 {
			t.Errorf("%+v", v)
		}
		catchUp()
		if _, err := s.Ahead(t.Context(), "mutex/y", me.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("another queue: %v", err)
		}
		_ = s.Leave(t.Context(), queue, me.Place)
		if _, err := s.Ahead(t.Context(), queue, me.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}

// V6
func TestAheadShowsTheRecordOfItsMomentToThoseWhoJoinedByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		holder := join(t, s, contender())
		old, err := s.SetRecord(t.Context(), queue, []byte("3"), 0)
		check(t, err)
		by := contender()
		by.Record = old
		me, other := join(t, s, by), join(t, s, contender())
		catchUp := f.lag()
		now, err := s.SetRecord(t.Context(), queue, []byte("1"), old)
		check(t, err)
		for _, want := range []driver.Version{old, now} {
			if want == now {
				catchUp()
			}
			n := f.sent(func() {
				v := ahead(t, s, me.Place)
				if v.Record != want || !slices.Equal(v.Ahead, []driver.Place{holder.Place}) || v.Last {
					t.Errorf("%+v, want record %d", v, want)
				}
			})
			if n != 1 {
				t.Errorf("%d requests", n)
			}
		}
		if v := ahead(t, s, other.Place); v.Record != 0 || len(v.Ahead) != 2 {
			t.Errorf("of a contender that knows no record: %+v", v)
		}
	})
}

// V3
func TestLastHasNoEntryBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		a := join(t, s, contender())
		if !ahead(t, s, a.Place).Last {
			t.Error("the only entry is not last")
		}
		b := join(t, s, contender())
		if ahead(t, s, a.Place).Last || !ahead(t, s, b.Place).Last {
			t.Error("two in the queue: the first is last or the second is not")
		}
		b.Place = convert(t, s, b, "y")
		if ahead(t, s, a.Place).Last || !ahead(t, s, b.Place).Last {
			t.Error("the second, converted, is not counted")
		}
		put(t, c, s.keys.Queue(queue)+"stray")
		if ahead(t, s, b.Place).Last {
			t.Error("the foreign entry is not counted")
		}
	})
}

// put puts a foreign key and returns its create revision.
func put(t *testing.T, c *clientv3.Client, key string) int64 {
	t.Helper()
	resp, err := c.Txn(t.Context()).Then(clientv3.OpPut(key, "foreign")).Commit()
	check(t, err)
	return resp.Header.Revision
}
