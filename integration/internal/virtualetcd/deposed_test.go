package virtualetcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
)

// TestHoldOfAClientThatReachesOnlyADeposedLeaderEndsInTime: no other member
// shows the newer term. The hold ends before its lease, which counts only what
// came before the election.
func TestHoldOfAClientThatReachesOnlyADeposedLeaderEndsInTime(t *testing.T) {
	for phase := range 20 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			inWorld(t, func(w *world) {
				three, _ := w.client("")
				held := must(must(mutex.New(w.baton(three), "a")).Lock(w.t.Context()))
				time.Sleep(3*ttl + time.Duration(phase)*ttl/47)
				all := w.Members()
				all[1].Suffer(virtualetcd.Mute)
				all[2].Suffer(virtualetcd.Mute)
				time.Sleep(time.Duration(phase%7) * ttl)
				if err := held.Err(); err != nil {
					w.t.Fatalf("lost while one member renews it: %v", err)
				}
				all[0].Suffer(virtualetcd.Deposed)
				for len(w.Leases()) > 0 {
					time.Sleep(10 * time.Millisecond)
				}
				select {
				case <-held.Context().Done():
				default:
					w.t.Error("the hold outlives its lease")
				}
			})
		})
	}
}

// TestHoldOutlivesADeposedLeaderWhoseStreamsAllRenewIt: the others show the
// newer term, and renew the lease.
func TestHoldOutlivesADeposedLeaderWhoseStreamsAllRenewIt(t *testing.T) {
	for phase := range 20 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			inWorld(t, func(w *world) {
				three, _ := w.client("")
				held := must(must(mutex.New(w.baton(three), "a")).Lock(w.t.Context()))
				time.Sleep(3 * ttl)
				all := w.Members()
				all[1].Suffer(virtualetcd.Mute)
				all[2].Suffer(virtualetcd.Mute)
				time.Sleep(3*ttl + time.Duration(phase)*ttl/47)
				all[1].Heal()
				all[2].Heal()
				all[0].Suffer(virtualetcd.Deposed)
				time.Sleep(20 * ttl)
				if err := held.Err(); err != nil {
					w.t.Errorf("the hold is lost: %v", err)
				}
			})
		})
	}
}

// TestRenewalsCostReadsOnlyIfMembersDoNotAnswer: keep-alives that go to three
// members in turn confirm each other. Of those that go to two members every
// third follows one at the same member.
func TestRenewalsCostReadsOnlyIfMembersDoNotAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		var reads, renewals atomic.Int32
		w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
			switch r.Message.(type) {
			case *pb.RangeRequest:
				reads.Add(1)
			case *pb.LeaseKeepAliveRequest:
				renewals.Add(1)
			}
			return virtualetcd.Fate{}
		})
		three, _ := w.client("")
		m := must(mutex.New(w.baton(three), "a"))
		held := must(m.Lock(w.t.Context()))
		session := held.Session()
		check(w.t, held.Unlock(w.t.Context())) // a hold sends reads by quorum, too
		during := func(d time.Duration) (int32, int32) {
			reads.Store(0)
			renewals.Store(0)
			time.Sleep(d)
			return reads.Load(), renewals.Load()
		}
		during(3 * ttl)
		if reads, renewals := during(20 * ttl); reads > 0 || renewals != 200 {
			w.t.Errorf("three members: %d reads for %d renewals", reads, renewals)
		}
		all := w.Members()
		all[1].Suffer(virtualetcd.Unrenewing)
		during(ttl)
		if reads, renewals := during(20 * ttl); reads > renewals*2/5 {
			w.t.Errorf("two members: %d reads for %d renewals", reads, renewals)
		}
		all[2].Suffer(virtualetcd.Unrenewing)
		during(ttl)
		if reads, renewals := during(20 * ttl); reads > renewals || reads < renewals/4 {
			w.t.Errorf("one member: %d reads for %d renewals", reads, renewals)
		}
		if held = must(m.Lock(w.t.Context())); held.Session() != session {
			w.t.Error("the session is lost")
		}
	})
}
