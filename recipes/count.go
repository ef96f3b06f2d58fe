package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// count is the admission of contenders with Terms, the permits of a semaphore:
// several hold at a time, and a record of the queue, which may change, says how
// many. The attempt knows none of this.
//
//	read the terms -> join, if they have not changed -> judge the view
//	   ^                        |                        ^    |
//	   +--------- changed ------+                  woken |    v not admitted
//	                                                    wait: alone, or on the
//	                                                    shared queue watch
type count struct {
	attempt
	terms *Terms

	record driver.Version // of the terms of the rule
	moved  bool           // the record has changed since the join
}

// agree takes the rule from the terms. It trusts a record that the session has
// read before: if that is stale, joining fails. A Try also reads the queue, so
// that it joins only if it is admitted; before it fails because of a record
// that was read before, it reads the record again.
func (c *count) agree(ctx context.Context) error {
	known := false
	if last := c.queue.record.Load(); last != nil && last.by == c.session {
		// An error is left to readTerms: the record may have changed since.
		if rule, err := c.terms.Rule(last.Record, false); err == nil {
			c.rule, c.record, known = rule, last.Version, true
		}
	}
	if !known {
		if err := c.readTerms(ctx); err != nil {
			return err
		}
	}
	if c.Try {
		view, err := c.session.Ahead(ctx, c.queue.id, driver.Place{})
		if err == nil && known && !c.rule(view.Ahead).Admitted {
			err = c.readTerms(ctx)
		}
		if err == nil && !c.rule(view.Ahead).Admitted {
			err = coordinator.ErrTaken
		}
		if err != nil {
			return err
		}
	}
	if c.terms.Mode != nil {
		c.Mode = c.terms.Mode(c.record)
	}
	return nil
}

// readTerms reads the record, and takes its rule.
func (c *count) readTerms(ctx context.Context) error {
	r, err := c.queue.ensureRecord(ctx, c.session, c.terms)
	if err != nil {
		return err
	}
	rule, err := c.terms.Rule(r, false)
	if err != nil {
		return err
	}
	c.queue.record.Store(&lastRecord{r, c.session})
	c.rule, c.record = rule, r.Version
	return nil
}

func (c *count) contender() driver.Contender {
	return driver.Contender{ID: c.session.NewID(false), Mode: c.Mode, Value: c.value, Record: c.record}
}

func (c *count) outdated(err error) bool {
	if !errors.Is(err, coordinator.ErrStale) {
		return false
	}
	c.queue.record.Store(nil)
	return true
}

func (c *count) heldMode() string { return c.terms.Held }

// wait returns nil when the rule admits the contender. Each wake-up only means
// that the verdict may be another one: the contender judges a view again.
func (c *count) wait(ctx context.Context) error {
	if c.joinedFirst() {
		return nil
	}
	defer c.beginWait()()
	// joining a watch that other contenders already share costs nothing
	shared := c.mayWatchQueue() && c.session.QueueWatched(c.queue.id)
	for {
		left := shared // the shared watch: then it waits alone once before it returns to it
		if shared {
			if admitted, err := c.watchQueue(ctx); admitted || err != nil {
				return err
			}
			shared = false
		}
		verdict, share, err := c.judge(ctx)
		if verdict.Admitted || err != nil {
			return err
		}
		if share && !left {
			shared = true
			continue
		}
		handedOver, err := c.await(ctx, verdict)
		if c.noteWake(); handedOver || err != nil {
			c.first = handedOver
			return err
		}
	}
}

// judge reads the queue and returns the verdict. share: the contender should
// wait on the shared queue watch.
func (c *count) judge(ctx context.Context) (verdict Verdict, share bool, err error) {
	for {
		view, err := c.view(ctx)
		if err != nil {
			return Verdict{}, false, err
		}
		verdict = c.rule(view.Ahead)
		switch {
		case !verdict.Admitted && c.Try:
			return verdict, false, coordinator.ErrTaken
		// without conversion an admitted contender ahead cannot show that it
		// holds
		case !verdict.Admitted && !c.session.Converts():
			return Verdict{Watch: view.Ahead, Record: true}, false, nil
		case !verdict.Admitted:
			return verdict, c.mayWatchQueue() && len(verdict.Watch) > 0 && shouldShare(view.Ahead), nil
		}
		same, err := c.confirm(ctx, view.Record)
		if err != nil {
			return Verdict{}, false, err
		}
		if same {
			c.first = len(view.Ahead) == 0
			// contenders behind may use the old record
			c.knownHolder = view.Last && !c.moved
			return verdict, false, nil
		}
	}
}

// view reads the places for the rule. A contender whose record has changed
// since it joined needs the whole queue, read after the change: contenders of
// the old record may have been admitted behind it.
func (c *count) view(ctx context.Context) (driver.View, error) {
	if c.moved && c.terms.Counts != nil {
		whole, err := c.session.Ahead(ctx, c.queue.id, driver.Place{})
		if err != nil {
			return whole, err
		}
		for i, p := range whole.Ahead {
			if p.ID == c.joined.Place.ID {
				var counted []driver.Place
				for _, behind := range whole.Ahead[i+1:] {
					if c.terms.Counts(behind.Mode) {
						counted = append(counted, behind)
					}
				}
				return driver.View{
					Ahead: append(counted, whole.Ahead[:i]...), Record: whole.Record,
				}, nil
			}
		} // not found: Ahead returns the reason
	}
	return c.session.Ahead(ctx, c.queue.id, c.joined.Place)
}
