package semaphore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// TestSlotsAreNotSharedAfterAReleaseOfUnknownOutcome: a holder does not use
// numbers that it may have released.
func TestSlotsAreNotSharedAfterAReleaseOfUnknownOutcome(t *testing.T) {
	for _, op := range []memory.Op{memory.OpRecord, memory.OpList, memory.OpSetRecord,
		memory.OpConvert} {
		// The request is lost, or only its reply.
		for _, late := range []bool{false, true} {
			parties(t, 4, func(a, b party) {
				p, q := a.acquire(3), b.acquire(1)
				a.wantSlots(p, 0, 1, 2)
				a.svc.OnRequest(func(r memory.Request) memory.Fate {
					switch {
					case r.Op != op || r.Driver != a.link:
						return memory.Fate{}
					case late:
						return memory.Fate{DelayReply: time.Minute}
					}
					return memory.Fate{DelayRequest: time.Minute}
				})
				ctx, cancel := context.WithTimeout(a.Context(), time.Second)
				defer cancel()
				left, err := p.ReleasePart(ctx, 1)
				wantErr(t, err, coordinator.ErrUnavailable, context.DeadlineExceeded)
				a.svc.OnRequest(nil)
				time.Sleep(time.Second)
				other := b.slots(q)
				mine := a.slots(p)
				if len(mine) != p.Permits() || len(mine) != left {
					t.Errorf("%s, %v: %d permits, %d said, with slots %v", op, late, p.Permits(), left, mine)
				}
				if slices.ContainsFunc(mine,
					func(slot int) bool { return slices.Contains(other, slot) }) {
					t.Errorf("%s, %v: slots %v and %v", op, late, mine, other)
				}
				if p.Permits() == 3 { // then it can be repeated
					a.releasePart(p, 1)
				}
				next := b.acquire(1)
				all := slices.Concat(a.slots(p), b.slots(q), b.slots(next))
				slices.Sort(all)
				if !slices.Equal(slices.Compact(all), []int{0, 1, 2, 3}) {
					t.Errorf("%s, %v: slots are %v", op, late, all)
				}
				a.release(p, q, next)
				a.empty()
			})
		}
	}
}

func TestSlotsThatCannotBeReadAreRefused(t *testing.T) {
	parties(t, 2, func(a, b party) {
		p := a.acquire(2)
		s, err := a.svc.Driver().Open(a.Context(), time.Minute)
		check(t, err)
		_, err = s.SetRecord(a.Context(), numbered, []byte("garbage"), 0)
		check(t, err)
		_, err = p.Slots(a.Context())
		wantErr(t, err, coordinator.ErrRefused)
		if p.Err() != nil {
			t.Errorf("the permit was disturbed: %v", p.Err())
		}
		a.releasePart(p, 1) // without a number to release
		a.svc.RemoveRecord(numbered)
		// Counts as no record.
		_, err = s.SetRecord(a.Context(), numbered, []byte("null"), 0)
		check(t, err)
		a.wantSlots(p, 0)
		a.release(p)
		check(t, s.Close(a.Context()))
		a.empty()
	})
}

// TestMoreSlotsThanTheRecordCanShowAreAnError, and the permits stay held.
func TestMoreSlotsThanTheRecordCanShowAreAnError(t *testing.T) {
	const most = 12_769 // 31 bytes, 12,768 commas, 10 + 2 * 90 + 3 * 900 + 4 * 9000 + 5 * 2769 digits
	parties(t, semaphore.MaxLimit, func(a, b party) {
		refused := func(p *semaphore.Permit) {
			_, err := p.Slots(a.Context())
			wantErr(t, err, coordinator.ErrInvalid)
			want := fmt.Sprintf("the numbers of %d permits", p.Permits())
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		p := a.acquire(semaphore.MaxLimit)
		a.costs("what never fits", 0, 0, func() { refused(p) })
		a.releasePart(p, semaphore.MaxLimit-1)
		a.wantSlots(p, 0)
		a.release(p)
		p = a.acquire(most + 1)
		refused(p)
		a.release(p)
		p, q := a.acquire(most), b.acquire(2)
		if n := len(a.slots(p)); n != most {
			t.Errorf("%d slots", n)
		}
		refused(q)
		a.releasePart(p, 100)
		b.wantSlots(q, most-100, most-99)
		a.release(p, q)
		a.empty()
	})
}

// TestWaitForSlotsEndsWithThePermit: in an outage the permit is lost, and Slots
// and ReleasePart return at once, however long the outage is.
func TestWaitForSlotsEndsWithThePermit(t *testing.T) {
	parties(t, 4, func(a, b party) {
		p, q := a.acquire(2), b.acquire(2)
		b.slots(q)
		a.svc.Stop()
		lost := make(chan time.Time, 1)
		context.AfterFunc(p.Context(), func() { lost <- time.Now() })
		_, err := p.Slots(a.Context())
		wantErr(t, err, coordinator.ErrSessionLost)
		if took := time.Since(<-lost); took > 0 {
			t.Errorf("Slots returned %v after the loss", took)
		}
		n, err := q.ReleasePart(b.Context(), 1)
		if wantErr(t, err, coordinator.ErrSessionLost); n != 0 {
			t.Errorf("%d are held after the loss", n)
		}
		a.svc.Start()
		time.Sleep(coordinator.DefaultTTL + time.Second) // the sessions end at the service
	})
}

// TestNumbersOfUnknownOutcomeAreReleasedWithAPart: the record may show numbers
// that the holder does not know.
func TestNumbersOfUnknownOutcomeAreReleasedWithAPart(t *testing.T) {
	parties(t, 4, func(a, b party) {
		p := a.acquire(3)
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropReply: r.Op == memory.OpSetRecord}
		})
		ctx, cancel := context.WithTimeout(a.Context(), time.Second)
		defer cancel()
		_, err := p.Slots(ctx)
		wantErr(t, err, coordinator.ErrUnavailable)
		a.svc.OnRequest(nil)
		a.releasePart(p, 1)
		next := b.acquire(2)
		b.wantSlots(next, 2, 3)
		a.wantSlots(p, 0, 1)
		a.release(p, next)
		a.empty()
	})
}
