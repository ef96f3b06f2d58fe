package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// Finding is one thing that Examine found out.
type Finding = driver.Finding

// What Examine asks, and what it wants.
const (
	examineReads  = 20
	examineWrites = 10

	examineQueuesAtMost = 1000 // each is read

	// tripsPerRenewal is how many of the slowest round trips should fit between
	// two renewals: services are slow now and then by a factor of ten.
	tripsPerRenewal = 10
)

// probe is the queue in which Examine stands for a moment. No recipe has its
// kind.
const probe = driver.Queue(engine.OwnKind + "/probe")

// Examine checks the service, for people: whether its servers answer and agree,
// whether this client may do what locks take, how long that takes, what that
// means for its TTL, and whether others meddle with its queues. It opens the
// session, if there is none, makes and deletes entries in a queue that no
// recipe uses, and leaves nothing behind. Each part ends, with a finding of its
// own, when ctx does.
func (c *Client) Examine(ctx context.Context) []Finding {
	var found []Finding
	if e, ok := c.engine.Driver().(driver.Examiner); ok {
		found = e.Examine(ctx)
	}
	began := time.Now()
	s, err := c.engine.Session(ctx)
	if err != nil {
		f := driver.Found(driver.Failure, "session", "%v", err)
		return append(found, f.So("see above, and First errors in docs/operations.md"))
	}
	opened := round(time.Since(began))
	found = append(found, driver.Found(driver.Fine, "session", "open after %v", opened))
	reads, err := trips(examineReads, func() error {
		_, err := s.Record(ctx, engine.Services, driver.Any)
		return err
	})
	found = append(found, timing("reads", reads, err))
	slowest := slices.Max(append(reads, 0))
	if c.engine.Sharer() == nil { // a shared layout has no place for it
		pairs, err := trips(examineWrites, func() error { return examineWrite(ctx, s) })
		found = append(found, timing("take and give back", pairs, err))
		slowest = max(slowest, slices.Max(append(pairs, 0))/2)
		found = append(found, examineQueues(ctx, s)...)
	}
	return append(found, examineTTL(s, slowest))
}

// examineWrite joins the probe's queue and leaves it, which are two requests.
func examineWrite(ctx context.Context, s *engine.Session) error {
	j, err := s.Join(ctx, probe, driver.Contender{ID: s.NewID(false), Mode: "x"})
	if err != nil {
		return err
	}
	return s.Leave(ctx, probe, j.Place)
}

// trips times up to n calls, until one fails.
func trips(n int, call func() error) (took []time.Duration, err error) {
	for range n {
		began := time.Now()
		if err = call(); err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

func timing(about string, took []time.Duration, err error) Finding {
	if err != nil {
		f := driver.Found(driver.Failure, about, "%v", err)
		if errors.Is(err, ErrRefused) {
			f = f.So("give this user the rights that docs/operations.md lists")
		}
		return f
	}
	slices.Sort(took)
	n := len(took)
	return driver.Found(driver.Fine, about, "median %v, slowest of %d: %v",
		round(took[n/2]), n, round(took[n-1]))
}

// examineQueues looks for entries that Baton has not made. In a queue of its
// own nobody else may stand.
func examineQueues(ctx context.Context, s *engine.Session) []Finding {
	const about = "queues"
	queues, err := s.Queues(ctx)
	if err != nil {
		return []Finding{driver.Found(driver.Note, about, "cannot be listed: %v", err)}
	}
	var found []Finding
	looked := min(len(queues), examineQueuesAtMost)
	for _, queue := range queues[:looked] {
		entries, err := s.List(ctx, queue, 0)
		switch {
		case errors.Is(err, ErrRefused):
			found = append(found, driver.Found(driver.Warning, "queue "+string(queue), "%v", err))
		case err != nil:
			return append(found, driver.Found(driver.Note, about, "%v", err))
		}
		var foreign []string
		for _, e := range entries {
			switch {
			case e.Stray != "":
				f := driver.Found(driver.Warning, "queue "+string(queue), "%s", e.Stray)
				found = append(found, f)
			case e.ID == "":
				foreign = append(foreign, e.Key)
			}
		}
		if len(foreign) > 0 {
			f := driver.Found(driver.Warning, "queue "+string(queue),
				"has entries that Baton did not make: %.200q", foreign)
			found = append(found, f.So("whose are they? To share queues with other clients, "+
				"name their layout in the URL: docs/interop.md. What is a left-over, delete"))
		}
	}
	text := fmt.Sprintf("somebody stands in %d of them", len(queues))
	if looked < len(queues) {
		text += fmt.Sprintf("; %d were looked at", looked)
	}
	return append(found, driver.Found(driver.Fine, about, "%s", text))
}

// examineTTL says what the session's TTL bears, and whether that is enough for
// round trips that last for as long as the slowest one.
func examineTTL(s *engine.Session, slowest time.Duration) Finding {
	ttl := s.TTL()
	renewal := ttl / engine.RenewalsPerTTL
	// It begins just before a renewal. If requests vanish in it, each is given
	// up after as long as lies between two renewals, and only one that is sent
	// when it is over helps. (Where they are refused at once some more is
	// survived: docs/ttl.md.)
	bears := (ttl - s.Margin() - renewal) / renewal * renewal
	f := driver.Found(driver.Fine, "TTL of this client", "%v: others wait for so long after a "+
		"crash; an outage of up to %v is survived, in the worst phase", ttl, round(bears))
	if wanted := slowest * tripsPerRenewal * engine.RenewalsPerTTL; wanted > ttl {
		f.Grade = driver.Warning
		f = f.So(fmt.Sprintf("requests take up to %v here: take a TTL of %v or more",
			round(slowest), (wanted + time.Second).Truncate(time.Second)))
	}
	return f
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
