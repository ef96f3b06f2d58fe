package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
)

const (
	ttl   = 30 * time.Second
	every = time.Second
	work  = every / 4
)

var idle = log.New(io.Discard, "", 0)

// fleet is the service under test: replicas, each with its own link to the
// coordination service, and the jobs that they ran.
type fleet struct {
	*testing.T
	svc      *memory.Service
	replicas []*replica

	mu   sync.Mutex
	jobs []job
}

type replica struct {
	*scheduler
	link   *memory.Driver // injects faults
	events memory.Tally
	queued queued
	stop   context.CancelFunc // as SIGTERM
	done   chan error
}

type job struct {
	replica    int
	token      coordinator.Token
	begun, end time.Time
}

// play runs a test in virtual time. The first replica leads.
func play(t *testing.T, replicas int, test func(*fleet), opts ...memory.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Made in the bubble, so that its timers are virtual.
		f := &fleet{T: t, svc: memory.NewService(opts...)}
		for range replicas {
			f.start()
		}
		test(f)
	})
}

func (f *fleet) start() {
	i := len(f.replicas)
	r := &replica{link: f.svc.Driver(), done: make(chan error, 1)}
	observer := event.ObserverFunc(func(e event.Event) {
		r.events.Observe(e)
		r.queued.Observe(e)
	})
	client, err := coordinator.New(r.link, coordinator.WithTTL(ttl),
		coordinator.WithObserver(observer), coordinator.WithIdentity(fmt.Sprint("replica ", i)),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		f.Fatal(err)
	}
	r.scheduler = &scheduler{client: client, every: every, drain: every, out: idle}
	r.job = func(_ context.Context, token coordinator.Token) error {
		begun := time.Now()
		time.Sleep(work)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.jobs = append(f.jobs, job{i, token, begun, time.Now()})
		return nil
	}
	ctx, stop := context.WithCancel(f.Context())
	r.stop = stop
	go func() { r.done <- r.run(ctx) }()
	f.replicas = append(f.replicas, r)
	f.Cleanup(func() { // all goroutines end before the bubble does
		r.link.Heal()
		stop()
		<-r.done
		_ = client.Close(context.Background()) // an error if the test has ended its session
	})
	synctest.Wait() // it is queued
}

// since returns the jobs that began after a time. It needs the mutex: for the
// race detector virtual time orders nothing.
func (f *fleet) since(from time.Time) (jobs []job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if j.begun.After(from) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (f *fleet) all() []job { return f.since(time.Time{}) }

// TestAnotherReplicaLeadsAfterACrash: a failover of thirty seconds takes a few
// milliseconds here.
func TestAnotherReplicaLeadsAfterACrash(t *testing.T) {
	play(t, 3, func(f *fleet) {
		time.Sleep(10 * time.Second)
		f.replicas[0].link.Cut() // as if its machine died
		crashed := time.Now()
		time.Sleep(ttl + 2*every) // no real time passes
		if after := f.since(crashed.Add(ttl)); len(after) == 0 || after[0].replica != 1 {
			f.Errorf("jobs after the TTL: %v", after)
		}
	})
}

// TestNoTwoLeadAtOnce: a leader that is cut off stops before the next begins.
func TestNoTwoLeadAtOnce(t *testing.T) {
	play(t, 3, func(f *fleet) {
		time.Sleep(10 * time.Second)
		f.replicas[0].link.Cut()
		time.Sleep(2 * ttl)
		f.replicas[0].link.Heal()
		time.Sleep(2 * ttl)
		last := f.all()[0]
		for _, j := range f.all()[1:] {
			if j.begun.Before(last.end) || j.token < last.token ||
				j.token == last.token && j.replica != last.replica {
				f.Errorf("%v after %v", j, last)
			}
			last = j
		}
		if lost := f.replicas[0].events.Count(event.Lost); lost != 1 || last.replica != 1 {
			f.Errorf("replica 0 lost %d terms, and replica %d leads", lost, last.replica)
		}
	})
}

// TestStoppedLeadersHandOver: a leader that is stopped finishes its job, and
// the next one leads at once, not after a TTL.
func TestStoppedLeadersHandOver(t *testing.T) {
	play(t, 3, func(f *fleet) {
		for i, r := range f.replicas[:2] {
			time.Sleep(10 * every)
			latest := f.all()[len(f.all())-1]
			time.Sleep(time.Until(latest.begun.Add(every + work/2))) // the middle of the next job
			r.stop()
			stopped := time.Now()
			time.Sleep(every)
			all, after := f.all(), f.since(stopped)
			last := all[len(all)-len(after)-1]
			if last.replica != i || last.end.Before(stopped) {
				f.Errorf("replica %d was stopped at %v, its last job: %v", i, stopped, last)
			}
			if len(after) == 0 || after[0].replica != i+1 || after[0].begun.After(last.end.Add(work)) {
				f.Errorf("replica %d was stopped at %v, then: %v", i, stopped, after)
			}
			if err := <-r.done; err != nil {
				f.Error(err)
			}
			r.done <- nil // for the clean-up
		}
	})
}

func TestShortFaultsDoNotEndTheTerm(t *testing.T) {
	once := func(op memory.Op, fate memory.Fate) func(*fleet) {
		return func(f *fleet) { f.svc.OnRequest(memory.Once(op, fate)) }
	}
	for name, trouble := range map[string]func(f *fleet){
		"an outage":         func(f *fleet) { f.svc.Stop() },
		"a lost connection": func(f *fleet) { f.replicas[0].link.Reset() },
		"a short partition": func(f *fleet) { f.replicas[0].link.Cut() },
		"no replies":        func(f *fleet) { f.replicas[0].link.HoldReplies() },
		"no requests":       func(f *fleet) { f.replicas[0].link.HoldRequests() },
		"a slow link":       func(f *fleet) { f.replicas[0].link.Delay(every/2, every/2) },
		"a lost request":    once(memory.OpRenew, memory.Fate{DropRequest: true}),
		"a renewal refused": once(memory.OpRenew, memory.Fate{Err: coordinator.ErrRefused}),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 2, func(f *fleet) {
				time.Sleep(10 * time.Second)
				trouble(f)
				time.Sleep(ttl / 3)
				f.svc.Start()
				f.replicas[0].link.Heal()
				time.Sleep(ttl)
				all, lost := f.all(), f.replicas[0].events.Count(event.Lost)
				last := all[len(all)-1]
				if len(all) < 45 || last.token != all[0].token || lost != 0 {
					f.Errorf("%d jobs, the last: %v; lost %d times", len(all), last, lost)
				}
			})
		})
	}
}

// TestLeaderStopsWhenAnOperatorEndsItsTerm, and campaigns again.
func TestLeaderStopsWhenAnOperatorEndsItsTerm(t *testing.T) {
	for name, take := range map[string]func(f *fleet){
		"the session ended": func(f *fleet) { f.replicas[0].link.Expire() },
		"the entry removed": func(f *fleet) {
			const queue = driver.Queue("election/scheduler")
			f.svc.Remove(queue, f.svc.Snapshot(queue)[0].Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 2, func(f *fleet) {
				time.Sleep(10*time.Second + every/2)
				take(f)
				ended := time.Now()
				time.Sleep(10 * time.Second)
				for _, j := range f.since(ended) {
					if j.replica != 1 {
						f.Errorf("%v, after the term ended at %v", j, ended)
					}
				}
				f.replicas[1].stop()
				stopped := time.Now()
				time.Sleep(2 * every)
				if again := f.since(stopped); len(again) == 0 || again[0].replica != 0 {
					f.Errorf("replica 0 is no candidate again: %v", again)
				}
			})
		})
	}
}

// TestLostReplyLeavesNoSecondCandidate: the service applied the request, and
// the reply was lost.
func TestLostReplyLeavesNoSecondCandidate(t *testing.T) {
	play(t, 1, func(f *fleet) {
		f.svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true}))
		f.start()
		time.Sleep(10 * time.Second)
		if n := f.svc.Stats().Entries; n != 2 {
			f.Errorf("%d are queued, want 2", n)
		}
	})
}

// TestIdleMinuteCostsOnlyRenewals, and a handoff wakes one of nine candidates.
func TestIdleMinuteCostsOnlyRenewals(t *testing.T) {
	play(t, 10, func(f *fleet) {
		time.Sleep(10 * time.Second)
		before := f.svc.Stats()
		time.Sleep(time.Minute)
		idle := f.svc.Stats().Since(before)
		if idle.Total() != idle.Requests[memory.OpRenew] || idle.Wakeups != 0 {
			f.Errorf("an idle minute: %v, %d wake-ups", idle.Requests, idle.Wakeups)
		}
		f.replicas[0].stop()
		time.Sleep(2 * every)
		woken := 0
		for _, r := range f.replicas[1:] {
			woken += r.link.Stats().Wakeups // of this client
		}
		if all := f.all(); woken != 1 || all[len(all)-1].replica != 1 {
			f.Errorf("a handoff wakes %d; the last job: %v", woken, all[len(all)-1])
		}
	})
}

// TestStaleViewsAndFewHints: views of the queue are stale, and the service
// omits its optional hints.
func TestStaleViewsAndFewHints(t *testing.T) {
	for seed := range uint64(5) {
		play(t, 4, func(f *fleet) {
			for i, r := range f.replicas[:3] {
				time.Sleep(5 * every)
				r.stop()
				stopped := time.Now()
				time.Sleep(2 * every)
				if after := f.since(stopped); len(after) == 0 || after[0].replica != i+1 {
					f.Errorf("seed %d: after replica %d: %v", seed, i, after)
				}
			}
		}, memory.WithStaleViews(seed), memory.WithFewHints(seed))
	}
}

func TestFailureOfAJobEndsTheTermAlone(t *testing.T) {
	play(t, 1, func(f *fleet) {
		f.replicas[0].stop()
		var terms []coordinator.Token
		s := &scheduler{client: f.replicas[0].client, every: every, drain: every, out: idle}
		s.job = func(_ context.Context, token coordinator.Token) error {
			if terms = append(terms, token); len(terms) == 1 {
				return errors.New("because")
			}
			return nil
		}
		ctx, stop := context.WithCancel(f.Context())
		ended := make(chan error) // made in the bubble, like all channels of its goroutines
		go func() { ended <- s.run(ctx) }()
		time.Sleep(time.Minute)
		stop()
		if err := <-ended; err != nil || len(terms) < 2 || terms[1] <= terms[0] {
			f.Errorf("terms %v, %v", terms, err)
		}
		if n := f.svc.Stats().Entries; n != 0 {
			f.Errorf("%d are queued", n)
		}
	})
}

func TestReplicaAnswersProbes(t *testing.T) {
	play(t, 2, func(f *fleet) {
		time.Sleep(every)
		check := func(when string, r *replica, ready, leader int) {
			f.Helper()
			handler := probes(&r.health, &r.queued)
			wants := map[string]int{"/ready": ready, "/leader": leader, "/live": http.StatusOK}
			for path, want := range wants {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				if answer.Code != want {
					f.Errorf("%s: %s answers %d, want %d", when, path, answer.Code, want)
				}
			}
		}
		const yes, no = http.StatusOK, http.StatusServiceUnavailable
		check("leader", f.replicas[0], yes, yes)
		check("candidate", f.replicas[1], yes, no)
		f.replicas[0].stop()
		time.Sleep(every)
		check("stopped", f.replicas[0], no, no)
		check("next leader", f.replicas[1], yes, yes)
	})
}

// TestQueuedCountsWhenALossIsReportedLate: the next entry is queued by then.
func TestQueuedCountsWhenALossIsReportedLate(t *testing.T) {
	var q queued
	for i, step := range []struct {
		event event.Event
		want  int32
	}{
		{event.Event{Kind: event.Joined, Token: 1}, 1},
		{event.Event{Kind: event.Joined, Token: 2}, 2},
		{event.Event{Kind: event.Lost, Token: 1}, 1},
		{event.Event{Kind: event.NotGranted}, 1}, // without a session it had not joined
		{event.Event{Kind: event.NotGranted, Token: 2}, 0},
	} {
		if q.Observe(step.event); q.Load() != step.want {
			t.Errorf("after event %d, %v: %d", i, step.event.Kind, q.Load())
		}
	}
}
