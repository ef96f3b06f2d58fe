package election

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// This file lets the candidate with the highest priority lead in the end. The
// queue stays as it is: the first in it leads, and then transfers, as it does
// for any process that asks. So a preference costs one hand-over, and the work
// of a leader ends through its drain.
//
// The mode of an entry has the priority, so the leader sees it in the watch of
// the queue, without a read. It lists the candidates when it sees a higher one,
// and again after the settling time: those that are in both lists have waited
// for so long.

// maxPriority leaves room in a mode, which has 16 characters.
const maxPriority = 1_000_000

// modeOf is the mode of a candidate: "x", or "x7" with a priority.
func modeOf(priority int) string {
	if priority == 0 {
		return mode
	}
	return mode + strconv.Itoa(priority)
}

// priorityOf returns the priority that a mode has, or 0.
func priorityOf(m string) int {
	digits, ours := strings.CutPrefix(m, mode)
	n, err := strconv.Atoi(digits)
	if !ours || err != nil || modeOf(n) != m {
		return 0
	}
	return n
}

// prefer transfers to a candidate of a higher priority than the leader's, once
// it has waited for the settling time.
func (r *runner) prefer(ctx context.Context, t *Term) {
	for {
		to, ok, err := r.settled(ctx, t)
		if err == nil && ok {
			if err = t.transferTo(ctx, to); err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.log().Warn("baton: cannot transfer to a candidate of a higher priority; trying again",
				"election", r.election.Name(), "token", t.Token(), "error", err)
			if r.pause(ctx, r.settle) != nil {
				return
			}
		}
	}
}

// settled waits until a candidate of a higher priority is queued, and for the
// settling time. It returns the one of the highest priority that has waited for
// so long, if there is one. If another one of a higher priority has come
// meanwhile, it waits for that, once: at the start of a fleet all come one
// after the other, and each transfer interrupts the work.
func (r *runner) settled(ctx context.Context, t *Term) (to recipes.Contender, ok bool, err error) {
	err = t.hold.WantedBy(ctx, func(m string) bool { return priorityOf(m) > r.priority })
	if err != nil {
		return to, false, err
	}
	known, err := r.higher(ctx)
	for again := true; err == nil; again = false {
		if err = r.pause(ctx, r.settle); err != nil {
			break
		}
		var now []recipes.Contender
		now, err = r.higher(ctx)
		i := slices.IndexFunc(now, func(c recipes.Contender) bool {
			return slices.ContainsFunc(known, func(k recipes.Contender) bool { return k.Token == c.Token })
		})
		switch {
		case i == 0 || i > 0 && !again:
			return now[i], true, err
		case i < 0: // those that were seen have gone
			return to, false, err
		}
		known = now
	}
	return to, false, err
}

// higher returns the candidates of a higher priority, the highest first, and
// those of the same in their order in the queue.
func (r *runner) higher(ctx context.Context) ([]recipes.Contender, error) {
	all, err := r.election.Candidates(ctx)
	all = slices.DeleteFunc(all, func(c recipes.Contender) bool { return priorityOf(c.Mode) <= r.priority })
	slices.SortStableFunc(all, func(a, b recipes.Contender) int { return priorityOf(b.Mode) - priorityOf(a.Mode) })
	return all, err
}

// transferTo is TransferTo for a candidate that is known.
func (t *Term) transferTo(ctx context.Context, to recipes.Contender) error {
	n := next{From: t.Token(), To: to.Token, ID: to.ID, Identity: to.Identity}
	if err := t.election.writeNext(ctx, n); err != nil {
		return err
	}
	if err := t.hold.Check(ctx); err != nil {
		return err
	}
	t.stepDownFor(n)
	return nil
}

// refusesPriority: the other clients of a shared queue write no modes.
func (e *Election) refusesPriority() error {
	if e.next != "" {
		return nil
	}
	return &coordinator.Error{Op: "run", Name: e.Name(), Err: errShared}
}
