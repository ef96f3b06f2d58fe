package recipes

import (
	"context"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// follow is the admission of contenders whose rule needs nothing but the places
// ahead: a mutex, a reader, a candidate.
//
//	join -> the first in the queue: admitted, without a read
//	     -> behind one entry that decides alone: follow it -> handed over: admitted
//	     -> read the queue -> admitted, or wait for the entries of the verdict
//	             ^                                            |
//	             +--------------------------------------------+
type follow struct{ *attempt }

// agree: a Try that is not exclusive reads the queue, so that it joins only if
// it is admitted: behind a writer that waits, its entry would delay those
// behind it. For an exclusive Try the service decides in the join (Alone).
func (f follow) agree(ctx context.Context) error {
	if !f.Try || f.exclusive() {
		return nil
	}
	view, err := f.session.Ahead(ctx, f.queue.id, driver.Place{})
	if err == nil && !f.rule(view.Ahead).Admitted {
		err = coordinator.ErrTaken
	}
	return err
}

func (f follow) contender() driver.Contender {
	return driver.Contender{ID: f.session.NewID(true), Mode: f.Mode, Value: f.value,
		Alone: f.Try && f.exclusive(), Follows: true}
}

// outdated: agree remembers nothing.
func (f follow) outdated(error) bool { return false }

func (f follow) heldMode() string { return "" }

// wait returns nil when the rule admits the contender. After each wake-up it
// reads the queue again, since the predecessor may have left without ever
// holding, unless the predecessor was the first and handed over.
func (f follow) wait(ctx context.Context) error {
	if f.joinedFirst() {
		return nil
	}
	defer f.beginWait()()
	ctx, stop := f.seekDeadlock(ctx)
	defer stop()
	for v := f.fromNearest(); ; v = (Verdict{}) {
		if !v.Next {
			var err error
			if v, err = f.judge(ctx); v.Admitted || err != nil {
				return err
			}
		}
		stop := f.suspectOwn(v)
		handedOver, err := f.await(ctx, v)
		stop()
		if f.noteWake(); handedOver || err != nil {
			f.first, f.told = handedOver, handedOver
			return err
		}
	}
}

// fromNearest returns the verdict if the predecessor alone decides it. A Try
// does not wait, so it has nothing to follow.
func (f follow) fromNearest() Verdict {
	if f.joined.Nearest == (driver.Place{}) || f.Try {
		return Verdict{}
	}
	if v := f.rule([]driver.Place{f.joined.Nearest}); v.Next {
		return v
	}
	return Verdict{}
}

// judge reads the queue and returns the verdict.
func (f follow) judge(ctx context.Context) (Verdict, error) {
	view, err := f.session.Ahead(ctx, f.queue.id, f.joined.Place)
	if err != nil {
		return Verdict{}, err
	}
	v := f.rule(view.Ahead)
	switch {
	case v.Admitted:
		f.first, f.knownHolder = len(view.Ahead) == 0, view.Last
	case f.Try: // another contender has joined ahead since agree
		return v, coordinator.ErrTaken
	}
	v.Watch = slices.Clone(v.Watch) // else each waiter would keep a view in memory
	return v, nil
}
