package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/examples/outbox"
	"github.com/baton-go/baton/internal/engine"
)

const (
	ttl   = 30 * time.Second
	every = time.Second
)

// fleet is the service under test: replicas, each with a link of its own to one coordination service, and what they sent.
type fleet struct {
	*testing.T
	svc      *memory.Service
	replicas []*replica

	mu   sync.Mutex
	sent []sending
}

type replica struct {
	link   *memory.Driver // the levers
	client *coordinator.Client
	events *memory.Tally
	stop   context.CancelFunc
	done   chan error
}

type sending struct {
	replica int
	token   coordinator.Token
	at      time.Time
}

// play runs a test in virtual time, with replicas that have come to rest: the first one leads.
func play(t *testing.T, replicas int, test func(*fleet), opts ...memory.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{T: t, svc: memory.NewService(opts...)} // inside of the bubble, so that its timers are virtual
		for i := range replicas {
			f.start(i)
		}
		test(f)
	})
}

func (f *fleet) start(i int) {
	r := &replica{link: f.svc.Driver(), events: new(memory.Tally), done: make(chan error, 1)}
	var err error
	r.client, err = coordinator.New(r.link, coordinator.WithTTL(ttl), coordinator.WithObserver(r.events),
		coordinator.WithIdentity(fmt.Sprint("replica ", i)), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(f.Context())
	r.stop = stop
	s := &outbox.Sender{Client: r.client, Every: every, Send: func(_ context.Context, token coordinator.Token) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sent = append(f.sent, sending{i, token, time.Now()})
		return nil
	}}
	go func() { r.done <- s.Run(ctx) }()
	f.replicas = append(f.replicas, r)
	f.Cleanup(func() { // all that was started ends before the bubble does
		r.link.Heal()
		stop()
		<-r.done
		_ = r.client.Close(context.Background()) // of a session that the test has ended there is nothing to close
	})
	synctest.Wait() // it stands in line
}

// all returns all that was sent. The lock is needed: that virtual time has passed does not tell the race detector who came first.
func (f *fleet) all() []sending { return f.sentSince(time.Time{}) }

// sentSince returns what was sent at or after a moment.
func (f *fleet) sentSince(from time.Time) []sending {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.sent {
		if !s.at.Before(from) {
			return append([]sending(nil), f.sent[i:]...)
		}
	}
	return nil
}

// TestAnotherGoesOnAfterACrash is a fail-over of thirty seconds, in a few milliseconds.
func TestAnotherGoesOnAfterACrash(t *testing.T) {
	play(t, 3, func(f *fleet) {
		time.Sleep(10 * time.Second)
		f.replicas[0].link.Cut() // nothing of it reaches the service any more, as when its machine dies
		crashed := time.Now()
		time.Sleep(ttl + 2*every) // no real time passes
		after := f.sentSince(crashed.Add(ttl))
		if len(after) == 0 || after[0].replica != 1 {
			f.Errorf("sent after the TTL: %v", after)
		}
	})
}

// TestNoTwoSendAtOnce: one that is cut off, and lives, stops before the next one begins.
func TestNoTwoSendAtOnce(t *testing.T) {
	play(t, 3, func(f *fleet) {
		time.Sleep(10 * time.Second)
		f.replicas[0].link.Cut()
		time.Sleep(2 * ttl)
		f.replicas[0].link.Heal()
		time.Sleep(2 * ttl)
		last := f.all()[0]
		for _, s := range f.all() {
			if s.token < last.token || s.token == last.token && s.replica != last.replica {
				f.Errorf("%v after %v", s, last)
			}
			last = s
		}
		if lost := f.replicas[0].events.Count(event.Lost); lost != 1 || last.replica != 1 {
			f.Errorf("replica 0 lost its lead %d times, and replica %d leads", lost, last.replica)
		}
	})
}

// TestPlannedStopHandsOverAtOnce and not after a TTL.
func TestPlannedStopHandsOverAtOnce(t *testing.T) {
	play(t, 2, func(f *fleet) {
		time.Sleep(10 * time.Second)
		f.replicas[0].stop()
		stopped := time.Now()
		time.Sleep(2 * every)
		if after := f.sentSince(stopped.Add(time.Nanosecond)); len(after) == 0 || after[0].replica != 1 {
			f.Errorf("sent after the stop: %v", after)
		}
	})
}

// TestShortOutageCostsNothing: the coordination service is away for a third of the TTL.
func TestShortOutageCostsNothing(t *testing.T) {
	play(t, 2, func(f *fleet) {
		time.Sleep(10 * time.Second)
		token := f.all()[0].token
		f.svc.Stop()
		time.Sleep(ttl / 3)
		f.svc.Start()
		time.Sleep(ttl)
		if all := f.all(); len(all) < 45 || all[len(all)-1].token != token {
			f.Errorf("%d sent, the last is %v; want all under token %v", len(all), all[len(all)-1], token)
		}
		if n := f.replicas[0].events.Count(event.SessionSuspended); n != 1 {
			f.Errorf("suspended %d times", n)
		}
	})
}

// TestSmallTroubleCostsNothing: whatever it is, the leader leads on.
func TestSmallTroubleCostsNothing(t *testing.T) {
	for name, trouble := range map[string]func(f *fleet){
		"a connection breaks": func(f *fleet) { f.replicas[0].link.Reset() },
		"a short partition":   func(f *fleet) { f.replicas[0].link.Cut() },
		"no replies":          func(f *fleet) { f.replicas[0].link.HoldReplies() },
		"no requests":         func(f *fleet) { f.replicas[0].link.HoldRequests() },
		"a lost request":      func(f *fleet) { f.svc.OnRequest(memory.Once(memory.OpRenew, memory.Fate{DropRequest: true})) },
		"a renewal refused": func(f *fleet) {
			f.svc.OnRequest(memory.Once(memory.OpRenew, memory.Fate{Err: coordinator.ErrRefused}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 2, func(f *fleet) {
				time.Sleep(10 * time.Second)
				trouble(f)
				time.Sleep(ttl / 3)
				f.replicas[0].link.Heal()
				time.Sleep(ttl)
				if all := f.all(); all[len(all)-1].token != all[0].token || f.replicas[0].events.Count(event.Lost) != 0 {
					f.Errorf("the first under token %v, the last under %v", all[0].token, all[len(all)-1].token)
				}
			})
		})
	}
}

// TestForeignEntryIsWaitedFor: another program has the name.
func TestForeignEntryIsWaitedFor(t *testing.T) {
	queue, err := engine.QueueOf("election", "outbox")
	if err != nil {
		t.Fatal(err)
	}
	play(t, 0, func(f *fleet) {
		foreign := f.svc.AddForeign(queue)
		f.start(0)
		time.Sleep(time.Minute)
		if all := f.all(); len(all) != 0 {
			f.Errorf("sent beside it: %v", all)
		}
		if !f.svc.Remove(queue, foreign.Key) {
			f.Error("not removed")
		}
		time.Sleep(2 * every)
		if len(f.all()) == 0 {
			f.Error("nothing sent after it")
		}
	})
}

// TestRefusedCandidateTriesAgain, after a pause: Run does that.
func TestRefusedCandidateTriesAgain(t *testing.T) {
	play(t, 0, func(f *fleet) {
		f.svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{Err: coordinator.ErrRefused}))
		f.start(0)
		time.Sleep(time.Minute)
		if n := f.replicas[0].events.Count(event.NotGranted); n != 1 || len(f.all()) == 0 {
			f.Errorf("refused %d times; sent: %v", n, f.all())
		}
	})
}

// TestHandsOfAnOperator: whichever way the lead is taken away, the leader stops at once and stands again.
func TestHandsOfAnOperator(t *testing.T) {
	for name, take := range map[string]func(f *fleet){
		"the session ended": func(f *fleet) { f.replicas[0].link.Expire() },
		"the entry removed": func(f *fleet) { f.svc.RemoveGrant(f.all()[0].token) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 2, func(f *fleet) {
				time.Sleep(10*time.Second + every/2)
				take(f)
				taken := time.Now()
				time.Sleep(10 * time.Second)
				for _, s := range f.sentSince(taken) {
					if s.replica != 1 {
						f.Errorf("%v, after it was taken", s)
					}
				}
				f.replicas[1].stop()
				handed := time.Now()
				time.Sleep(2 * every)
				if again := f.sentSince(handed.Add(time.Nanosecond)); len(again) == 0 || again[0].replica != 0 {
					f.Errorf("replica 0 has not come back: %v", again)
				}
			})
		})
	}
}

// TestLostReplyLeavesNoSecondCandidate: the service took the candidate in, and nobody was told.
func TestLostReplyLeavesNoSecondCandidate(t *testing.T) {
	play(t, 1, func(f *fleet) {
		f.svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true}))
		f.start(1)
		time.Sleep(10 * time.Second)
		if n := f.svc.Stats().Entries; n != 2 {
			f.Errorf("%d in line, want 2", n)
		}
	})
}

// TestSlowLink: every request takes half a second, and so does every answer.
func TestSlowLink(t *testing.T) {
	play(t, 2, func(f *fleet) {
		for _, r := range f.replicas {
			r.link.Delay(500*time.Millisecond, 500*time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
		if n := f.replicas[0].events.Count(event.Lost); n != 0 {
			f.Errorf("lost %d times", n)
		}
	})
}

// TestWhatItCosts: a quiet minute costs the renewals, and a hand-over wakes one of those who wait.
func TestWhatItCosts(t *testing.T) {
	play(t, 10, func(f *fleet) {
		time.Sleep(10 * time.Second)
		before := f.svc.Stats()
		time.Sleep(time.Minute)
		quiet := f.svc.Stats().Since(before)
		if quiet.Total() != quiet.Requests[memory.OpRenew] || quiet.Wakeups != 0 {
			f.Errorf("a quiet minute: %v, %d wake-ups", quiet.Requests, quiet.Wakeups)
		}
		f.replicas[0].stop()
		time.Sleep(2 * every)
		woken := 0
		for _, r := range f.replicas[1:] {
			woken += r.link.Stats().Wakeups // of one client
		}
		if sent := f.sentSince(time.Now().Add(-every)); woken != 1 || len(sent) == 0 || sent[0].replica != 1 {
			f.Errorf("a hand-over wakes %d; sent: %v", woken, sent)
		}
	})
}

// TestServicesThatSayLess: a replica of the service that lags, and a service that leaves unsaid what it may.
func TestServicesThatSayLess(t *testing.T) {
	for seed := range uint64(5) {
		play(t, 4, func(f *fleet) {
			for i, r := range f.replicas[:3] {
				time.Sleep(5 * every)
				r.stop()
				stopped := time.Now()
				time.Sleep(2 * every)
				if after := f.sentSince(stopped.Add(time.Nanosecond)); len(after) == 0 || after[0].replica != i+1 {
					f.Errorf("seed %d: after replica %d: %v", seed, i, after)
				}
			}
		}, memory.WithStaleViews(seed), memory.WithFewHints(seed))
	}
}

// TestSenderSaysWhyItEnded and gives the lead back.
func TestSenderSaysWhyItEnded(t *testing.T) {
	play(t, 1, func(f *fleet) {
		because := errors.New("no more mail")
		s := &outbox.Sender{Client: f.replicas[0].client, Every: every,
			Send: func(context.Context, coordinator.Token) error { return because }}
		ended := make(chan error) // made in the bubble, as all channels that its goroutines wait on
		go func() { ended <- s.Run(f.Context()) }()
		f.replicas[0].stop()
		if err := <-ended; !errors.Is(err, because) {
			f.Error(err)
		}
		if n := f.svc.Stats().Entries; n != 0 {
			f.Errorf("%d in line", n)
		}
	})
}
