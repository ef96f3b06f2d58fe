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

// Finding is one result of Examine.
type Finding = driver.Finding

// How much Examine does, and what it expects.
const (
	examineReads  = 20
	examineWrites = 10

	examineQueuesAtMost = 1000 // each is read

	// tripsPerAttempt is how many of the slowest round trips should fit into an
	// attempt: services are sometimes slower by a factor of ten.
	tripsPerAttempt = 10

	// reconnect is how long after an outage a renewal is answered.
	reconnect = 500 * time.Millisecond
)

// probe is the queue that Examine joins. No recipe has its kind.
const probe = driver.Queue(engine.OwnKind + "/probe")

// Examine checks the service's health and returns findings for an operator to
// read: on its servers, this client's rights, the speed of requests, the TTL,
// and entries of other programs in the queues. It leaves nothing behind.
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
	if c.engine.Sharer() == nil { // a foreign layout has no queue for probes
		pairs, err := trips(examineWrites, func() error { return examineWrite(ctx, s) })
		found = append(found, timing("acquire and release", pairs, err))
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

// examineQueues finds entries of other programs in Baton's own queues.
func examineQueues(ctx context.Context, s *engine.Session) []Finding {
	const about = "queues"
	queues, err := s.Queues(ctx)
	if err != nil {
		return []Finding{driver.Found(driver.Note, about, "cannot be listed: %v", err)}
	}
	var found []Finding
	read := min(len(queues), examineQueuesAtMost)
	for _, queue := range queues[:read] {
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
				f := driver.Found(driver.Warning, "queue "+string(queue), "%s",
					engine.Printable(e.Stray))
				found = append(found, f)
			case e.ID == "":
				foreign = append(foreign, e.Key)
			}
		}
		if len(foreign) > 0 {
			f := driver.Found(driver.Warning, "queue "+string(queue),
				"has entries of other programs: %.200q", foreign)
			found = append(found, f.So("find out which program writes them. To share queues with "+
				"other clients, name their layout in the URL: docs/interop.md. Delete leftovers"))
		}
	}
	text := fmt.Sprintf("%d are not empty", len(queues))
	if read < len(queues) {
		text += fmt.Sprintf("; %d were read", read)
	}
	return append(found, driver.Found(driver.Fine, about, "%s", text))
}

// examineTTL reports the longest outage that the session survives, and whether
// the TTL is long enough for the slowest round trip.
func examineTTL(s *engine.Session, slowest time.Duration) Finding {
	ttl := s.TTL()
	bears := max(0, ttl-s.Margin()-ttl/driver.RenewalsPerTTL-reconnect)
	f := driver.Found(driver.Fine, "TTL of this client", "%v: others wait that long after a "+
		"crash; holds survive an outage of %v, in the worst phase", ttl, round(bears))
	if wanted := slowest * tripsPerAttempt * engine.AttemptsPerTTL; wanted > ttl {
		f.Grade = driver.Warning
		f = f.So(fmt.Sprintf("requests take up to %v here: take a TTL of %v or more",
			round(slowest), (wanted + time.Second).Truncate(time.Second)))
	}
	return f
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
