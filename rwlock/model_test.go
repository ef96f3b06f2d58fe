package rwlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// visit is a contender of a generated schedule, and its result.
type visit struct {
	writer, try      bool
	client           int
	join, hold, wait time.Duration // wait is its patience
	stay             time.Duration // how long a writer reads after a downgrade

	granted, lost bool          // lost: the session ended before it was unlocked, or granted
	at            time.Duration // when it was granted, or gave up
	left          time.Duration // when it was unlocked or lost
	token         coordinator.Token
}

// death is a session's end at the service.
type death struct {
	client int
	at     time.Duration
}

const clients = 4

// TestLockFollowsTheReferenceModel runs generated schedules of readers,
// writers, downgrades, tries, cancellations and lost sessions, in virtual time
// and on a service without delay. It compares every grant and end, its time,
// and the order of tokens with a small model. Half of the services have stale
// views. In every third schedule all are writers, as for a mutex and an
// election.
func TestLockFollowsTheReferenceModel(t *testing.T) {
	for seed := range uint64(180) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			got, deaths := generate(r, seed%3 == 0)
			want := slices.Clone(got)
			model(want, deaths)
			var opts []memory.Option
			if seed%2 == 1 {
				opts = append(opts, memory.WithStaleViews(seed))
			}
			play(t, memory.NewService(opts...), got, deaths)
			compare(t, seed, got, want)
		})
	}
}

// generate makes a schedule in the order of joining. Times are random
// nanoseconds, so that no two events happen at the same time.
func generate(r *rand.Rand, alone bool) (visits []visit, deaths []death) {
	random := func(limit time.Duration) time.Duration {
		return time.Duration(
			1 + r.Int64N(int64(limit)))
	}
	var at time.Duration
	for range 2 + r.IntN(24) {
		at += random(2 * time.Second)
		v := visit{writer: alone || r.IntN(5) < 2, try: r.IntN(6) == 0, client: r.IntN(clients),
			join: at, hold: random(5 * time.Second), wait: time.Hour}
		if r.IntN(4) == 0 {
			v.wait = random(10 * time.Second)
		}
		if v.writer && r.IntN(3) == 0 {
			v.stay = random(5 * time.Second)
		}
		visits = append(visits, v)
	}
	for range r.IntN(3) {
		deaths = append(deaths, death{r.IntN(clients), random(at + 5*time.Second)})
	}
	return visits, deaths
}

// model is the reference: first come, first served, and readers share. A
// contender is granted when the last contender ahead that excludes it has left
// or has become a reader, unless its patience or session ends first.
func model(visits []visit, deaths []death) {
	wrote := make([]time.Duration, len(visits)) // when a writer left or became a reader
	for i := range visits {
		v := &visits[i]
		v.at = v.join
		for j, before := range visits[:i] {
			switch {
			case v.writer:
				v.at = max(v.at, before.left)
			case before.writer:
				v.at = max(v.at, wrote[j])
			}
		}
		end := time.Duration(1 << 62)
		for _, d := range deaths {
			if d.client == v.client && d.at > v.join {
				end = min(end, d.at)
			}
		}
		switch {
		case v.try && v.at > v.join:
			v.at, v.left, wrote[i] = v.join, v.join, v.join
			continue
		case v.at >= min(end, v.join+v.wait):
			v.lost = end < v.join+v.wait
			v.at = min(end, v.join+v.wait)
			v.left, wrote[i] = v.at, v.at
			continue
		}
		v.granted = true
		wrote[i] = min(end, v.at+v.hold)
		v.left = min(end, v.at+v.hold+v.stay)
		v.lost = end < v.at+v.hold+v.stay
	}
}

// play runs a schedule with Baton.
func play(t *testing.T, svc *memory.Service, visits []visit, deaths []death) {
	parties := make([]party, clients)
	for i := range parties {
		parties[i] = join(t, svc)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range visits {
		wg.Go(func() { visits[i].play(parties[visits[i].client], start) })
	}
	for _, d := range deaths {
		wg.Go(func() {
			time.Sleep(d.at)
			svc.Expire(parties[d.client].session().ID())
		})
	}
	wg.Wait()
	synctest.Wait()
	if n := len(svc.Snapshot(queue)); n != 0 {
		t.Errorf("%d left in the queue", n)
	}
	for _, p := range parties {
		if err := p.client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func (v *visit) play(p party, start time.Time) {
	time.Sleep(v.join)
	ctx, cancel := context.WithTimeout(context.Background(), v.wait)
	defer cancel()
	l, err := p.kind(v.writer, v.try)(ctx)
	v.at, v.granted = time.Since(start), err == nil
	if err != nil {
		v.left, v.lost = v.at, errors.Is(err, coordinator.ErrSessionLost)
		if !v.lost && !v.try && !errors.Is(err, context.DeadlineExceeded) ||
			v.try && !errors.Is(err, coordinator.ErrTaken) {
			p.Errorf("gave up with %v", err)
		}
		return
	}
	v.token = l.Token()
	v.lost = !v.lasts(l, v.hold)
	if v.stay > 0 && !v.lost {
		w := l
		l = p.take(p.l.RLock, w.Context())
		p.unlock(w)
		v.lost = !v.lasts(l, v.stay)
	}
	v.left = time.Since(start)
	if err := l.Unlock(context.Background()); v.lost != errors.Is(err,
		coordinator.ErrSessionLost) || err != nil && !v.lost {
		p.Errorf("unlock: %v", err)
	}
}

// kind selects one of the four methods to lock.
func (p party) kind(writer, try bool) take {
	switch {
	case writer && try:
		return p.l.TryLock
	case writer:
		return p.l.Lock
	case try:
		return p.l.TryRLock
	}
	return p.l.RLock
}

// lasts waits for a time, and reports whether the lock was held until its end.
func (v *visit) lasts(l *rwlock.Lock, d time.Duration) bool {
	select {
	case <-time.After(d):
		return l.Err() == nil
	case <-l.Context().Done():
		return false
	}
}

func compare(t *testing.T, seed uint64, got, want []visit) {
	t.Helper()
	var last coordinator.Token
	for i, g := range got {
		w := want[i]
		if g.granted && g.token <= last {
			t.Fatalf("seed %d, contender %d: token %d after %d", seed, i, g.token, last)
		}
		last = max(last, g.token)
		if g.token = 0; g != w {
			t.Fatalf("seed %d, contender %d:\n%+v, want\n%+v", seed, i, g, w)
		}
	}
}
