package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	advice "github.com/baton-go/baton/internal/hint"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// queueView is a queue as list, inspect and break read it, and as JSON shows
// it.
type queueView struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Limit and Held are a semaphore's.
	Limit int `json:"limit,omitempty"`
	Held  int `json:"held,omitempty"`
	// Value is a counter's, or the last number of IDs that is taken.
	Value  *int64 `json:"value,omitempty"`
	Set    *bool  `json:"set,omitempty"`    // of a barrier
	Round  int64  `json:"round,omitempty"`  // of a double barrier
	Shards int    `json:"shards,omitempty"` // of a partition
	// Runs are those that the record of a once shows, the latest last.
	Runs []runView `json:"runs,omitempty"`

	Contenders []contenderView `json:"contenders"`
	LeftOut    int             `json:"left_out,omitempty"` // by --limit

	shared  bool                  // with clients other than Baton's
	entries coordinator.QueueName // the queue of the contenders
}

// stored reports whether the queue has more than contenders.
func (q queueView) stored() bool {
	return q.Limit > 0 || q.Value != nil || q.Set != nil || q.Round > 0 || q.Shards > 0 || q.Runs != nil
}

// runView is a run of a once.
type runView struct {
	Key      string            `json:"key"`
	Token    coordinator.Token `json:"token"`
	Identity string            `json:"identity"`
	Began    time.Time         `json:"began"`
	Ended    *time.Time        `json:"ended,omitempty"`
}

// contenderView is a holder or a waiter.
type contenderView struct {
	Holding bool `json:"holding"`
	// Mode is what the contender requests or holds: "exclusive", "read",
	// "write", "permits", "lead"; "member" of a group or a partition; "enter"
	// or "leave", a double barrier; or "unknown" for an entry that is not
	// Baton's.
	Mode     string            `json:"mode"`
	Permits  int               `json:"permits,omitempty"`
	Identity string            `json:"identity,omitempty"`
	Since    *time.Time        `json:"since,omitempty"`
	Token    coordinator.Token `json:"token"`
	Session  string            `json:"session,omitempty"`
	Retains  bool              `json:"retains,omitempty"` // it may hold without working
	Payload  string            `json:"payload,omitempty"` // quoted if it cannot be printed
	// Stray, unless empty, says that no session owns it, and how to remove it.
	Stray string `json:"stray,omitempty"`
	// Under are the holds of the caller's context when it joined.
	Under        []underView `json:"under,omitempty"`
	UnderLeftOut int         `json:"under_left_out,omitempty"`
}

// underView is a hold under which a contender was called.
type underView struct {
	Kind    string            `json:"kind"`
	Name    string            `json:"name"`
	Token   coordinator.Token `json:"token"`
	Service string            `json:"service,omitempty"` // if it is of another client
}

func (u underView) String() string {
	text := fmt.Sprintf("%s %s (token %d)", u.Kind, cell(u.Name), u.Token)
	if u.Service != "" {
		text += " of " + printable(u.Service)
	}
	return text
}

// kinds lists the recipes' kinds in the order of output.
var kinds = []string{"mutex", "rwlock", "semaphore", "election", "group", "partition",
	"partition-shard", "counter", "ids", "barrier", "double-barrier", "once"}

// reader reads the queue of a name.
type reader func(context.Context, *coordinator.Client, string) (queueView, error)

// readers read a queue of each kind.
var readers = map[string]reader{
	"mutex": readMutex, "rwlock": readRWLock, "semaphore": readSemaphore, "election": readElection,
	"group": readGroup, "partition": readPartition, "partition-shard": readShard,
	"counter": readNumber("counter"), "ids": readNumber("ids"),
	"barrier": readBarrier, "double-barrier": readDouble, "once": readOnce,
}

func readMutex(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "mutex", name)
	m, err := mutex.New(c, name)
	if err != nil {
		return q, err
	}
	all, err := m.Contenders(ctx)
	for _, c := range all {
		q.add(c, "exclusive", 0)
	}
	return q, err
}

func readRWLock(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "rwlock", name)
	l, err := rwlock.New(c, name)
	if err != nil {
		return q, err
	}
	all, err := l.Contenders(ctx)
	for _, c := range all {
		mode := "read"
		if c.Writer {
			mode = "write"
		}
		q.add(c.Contender, mode, 0)
	}
	return q, err
}

func readSemaphore(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "semaphore", name)
	s, err := semaphore.New(c, name, semaphore.Stored)
	if err != nil {
		return q, err
	}
	listing, err := s.List(ctx)
	q.Limit, q.Held = listing.Limit, listing.Held
	for _, c := range listing.Contenders {
		q.add(c.Contender, "permits", c.Permits)
	}
	return q, err
}

func readElection(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "election", name)
	e, err := election.New(c, name)
	if err != nil {
		return q, err
	}
	all, err := e.Candidates(ctx)
	for _, c := range all {
		q.add(c, "lead", 0)
	}
	return q, err
}

// newView returns an empty queue, whose contenders are an empty array in JSON
// and not null.
func newView(c *coordinator.Client, kind, name string) queueView {
	return queueView{Kind: kind, Name: name, Contenders: []contenderView{}, shared: c.Shared(),
		entries: coordinator.QueueName{Kind: kind, Name: name}}
}

func (q *queueView) add(c recipes.Contender, mode string, permits int) {
	v := contenderView{
		Holding: c.Holding, Mode: mode, Permits: permits,
		Identity: c.Identity, Token: c.Token, Session: c.Session,
		Payload: printable(string(c.Payload)), Stray: c.Stray, Retains: c.Retains,
	}
	if c.ID == "" && !q.shared {
		v.Mode = "unknown"
	}
	if !c.Since.IsZero() {
		v.Since = &c.Since
	}
	v.UnderLeftOut = c.UnderLeftOut
	for _, o := range c.Under {
		kind, name, _ := o.Queue.Split()
		v.Under = append(v.Under, underView{Kind: kind, Name: name, Token: o.Token, Service: o.Service})
	}
	q.Contenders = append(q.Contenders, v)
}

// holders returns the identities of the holders.
func (q queueView) holders() []string {
	all := []string{}
	for _, c := range q.Contenders {
		if c.Holding {
			all = append(all, c.Identity)
		}
	}
	return all
}

// since returns when the first of the holders, or of the waiters, joined; nil
// if there is none that says.
func (q queueView) since(holding bool) (first *time.Time) {
	for _, c := range q.Contenders {
		if c.Holding == holding && c.Since != nil && (first == nil || c.Since.Before(*first)) {
			first = c.Since
		}
	}
	return first
}

// errWhichKind: in the layout of another client two kinds can have the same
// queue, and reading it as the wrong kind is an error.
var errWhichKind = errors.New("the URL has a layout that is shared with other clients: " +
	"select the kind of queue with --kind")

// readQueues reads the queues at a name that have a contender or store
// something: of one kind, or of all if kind is empty.
func readQueues(
	ctx context.Context, c *coordinator.Client, kind, name string,
) ([]queueView, error) {
	wanted := kinds
	switch {
	case kind != "":
		wanted = []string{kind}
	case c.Shared():
		return nil, usage(errWhichKind)
	}
	read, errs := make([]queueView, len(wanted)), make([]error, len(wanted))
	var wg sync.WaitGroup
	for i, k := range wanted {
		wg.Go(func() { read[i], errs[i] = readers[k](ctx, c, name) })
	}
	wg.Wait()
	queues := []queueView{} // an empty array in JSON
	for i, k := range wanted {
		q, err := read[i], errs[i]
		switch {
		case kind == "" && errors.Is(err, coordinator.ErrRefused) && readsOther(ctx, c, k, name):
			return nil, fmt.Errorf("%w; use --kind to read a queue of another kind", err)
		case err != nil:
			return nil, err
		}
		if len(q.Contenders) > 0 || q.stored() {
			queues = append(queues, q)
		}
	}
	return queues, nil
}

// readsOther reports whether the queue of another kind at a name can be read.
// Most refusals concern all kinds: of rights, a password, or space.
func readsOther(ctx context.Context, c *coordinator.Client, kind, name string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool {
		if k == kind {
			return false
		}
		_, err := readers[k](ctx, c, name)
		return err == nil
	})
}

// hint returns what to do if name is that of a queue in a log line, such as
// "mutex/a%2Fb".
func hint(name string) string {
	kind, escaped, _ := strings.Cut(name, "/")
	of, err := url.PathUnescape(escaped)
	if err != nil || of == "" || !slices.Contains(kinds, kind) {
		return ""
	}
	return fmt.Sprintf("; for the queue %q of a log line use --kind %s %s", name, kind, advice.Argument(of))
}

// cell formats a text for a table: "-" if it is empty.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}
