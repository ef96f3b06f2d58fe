package election_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// TestRunsOverGeneratedFaultsNeverOverlap has four processes campaign, drain, step down, shut down and come back, while
// links are cut and the service is restarted, on views that lag. What is promised: works never overlap, tokens rise
// (the stage looks at both), somebody leads when all is well again, and nothing is left in the end. FIELD 66: sessions that
// come and go at the worst moments never make two leaders.
func TestRunsOverGeneratedFaultsNeverOverlap(t *testing.T) {
	terms := 0
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			f := &fleet{svc: memory.NewService(memory.WithStaleViews(seed))}
			for _, name := range []string{"a", "b", "c", "d"} {
				p := join(t, f.svc, name)
				p.link.Delay(time.Duration(r.IntN(20))*time.Millisecond, time.Duration(r.IntN(20))*time.Millisecond)
				f.parties, f.runs = append(f.parties, p), append(f.runs, nil)
			}
			for i := range f.parties {
				f.start(i, r.Uint64())
			}
			for range 80 {
				f.trouble(r)
				sleep(time.Duration(r.Int64N(int64(8 * time.Second))))
			}
			f.svc.Start()
			for _, p := range f.parties {
				p.link.Heal()
			}
			f.calm.Store(true)
			for i, run := range f.runs {
				if run == nil {
					f.start(i, 0)
				}
			}
			sleep(2 * time.Minute)
			if len(f.stage.working()) != 1 {
				t.Errorf("seed %d: %v work when all is well", seed, f.stage.working())
			}
			terms += len(f.stage.worked())
			f.end(t)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	if t.Logf("%d terms", terms); terms < 300 {
		t.Error("the schedules are too calm to say anything")
	}
}

// fleet is the processes of a schedule.
type fleet struct {
	svc     *memory.Service
	parties []party
	runs    []*runner // nil: shut down
	stage   stage
	calm    atomic.Bool // works do not end by themselves any more
}

// start starts process i. Its work ends by itself now and then, and takes a while to stop.
func (f *fleet) start(i int, seed uint64) {
	p, r := f.parties[i], rand.New(rand.NewPCG(seed, 8))
	f.runs[i] = p.run(func(ctx context.Context, term *election.Term) error {
		leave := f.stage.enter(p, term)
		defer leave()
		enough := time.After(time.Duration(r.Int64N(int64(time.Minute))))
		if f.calm.Load() {
			enough = nil
		}
		select {
		case <-enough:
			return election.ErrStepDown
		case <-ctx.Done():
		}
		select { // a planned end leaves time to drain, a loss does not
		case <-time.After(time.Duration(r.Int64N(int64(5 * time.Second)))):
		case <-term.Context().Done():
		}
		return nil
	})
}

// trouble is one step of a schedule.
func (f *fleet) trouble(r *rand.Rand) {
	i := r.IntN(len(f.parties))
	p := f.parties[i]
	switch r.IntN(14) {
	case 0:
		p.link.Cut()
	case 1:
		p.link.HoldRequests()
	case 2:
		p.link.HoldReplies()
	case 3:
		p.link.Reset()
	case 6:
		f.svc.Stop()
	case 7, 8, 9:
		f.svc.Start()
	case 10, 11:
		if f.runs[i] == nil {
			f.start(i, r.Uint64())
			return
		}
		f.runs[i].stop(nil)
		_ = f.runs[i].ended()
		f.runs[i] = nil
	default:
		f.svc.Start()
		p.link.Heal()
	}
}

// end shuts all down and looks for what is left.
func (f *fleet) end(t *testing.T) {
	for _, run := range f.runs {
		if run != nil {
			run.stop(nil)
			_ = run.ended()
		}
	}
	sleep(time.Minute)
	if left := f.svc.Snapshot(queue); len(left) != 0 {
		t.Errorf("left in the queue: %v", left)
	}
	for _, p := range f.parties {
		if err := p.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if st := f.svc.Stats(); st.Watches != 0 || st.Sessions != 0 {
		t.Errorf("left: %+v", st)
	}
	synctest.Wait()
}
