package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// These readers read recipes whose state is the record of a queue. They do not
// use the recipes: those ask the service for its latest state, for which they
// need the right to write, and a reader may be a moment late. The records are
// JSON, so that operators can read them.

// readState reads a queue of a kind: its entries, and its record into state,
// unless it is nil. found: there is a record. holds reports whether an entry
// counts as a holder.
func readState(
	ctx context.Context, c *coordinator.Client, kind, name string, state any, holds recipes.Rule,
) (all []recipes.Contender, found bool, err error) {
	queue, err := recipes.NewQueue(c, kind, name)
	if err != nil {
		return nil, false, err
	}
	if state != nil {
		r, err := queue.Record(ctx)
		found = r.Version != 0
		if err == nil && found && json.Unmarshal(r.Value, state) != nil {
			err = fmt.Errorf("%w: the record is not that of a %s: %.80q",
				coordinator.ErrRefused, kind, r.Value)
		}
		if err != nil {
			return nil, false, recipes.Describe(ctx, "read", name, err)
		}
	}
	all, err = queue.List(ctx, func(string) recipes.Rule { return holds })
	return all, found, err
}

// everyone is the rule of members.
func everyone([]driver.Place) recipes.Verdict { return recipes.Verdict{Admitted: true} }

// addMember adds an entry that is a member's if a session of Baton's owns it.
func (q *queueView) addMember(c recipes.Contender, mode string) {
	c.Holding = c.Holding && c.ID != "" && c.Stray == ""
	q.add(c, mode, 0)
}

func readGroup(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "group", name)
	all, _, err := readState(ctx, c, q.Kind, name, nil, everyone)
	for _, c := range all {
		q.addMember(c, "member")
	}
	return q, err
}

// readPartition reads the plan, and the members, which are those of a group.
func readPartition(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "partition", name)
	var plan struct {
		Shards  int
		Members []struct {
			Token coordinator.Token
			Holds []int
		}
	}
	_, found, err := readState(ctx, c, q.Kind, name, &plan, everyone)
	if err != nil || !found {
		return q, err
	}
	q.Shards, q.entries = plan.Shards, coordinator.QueueName{Kind: "group", Name: partitionGroup + name}
	all, _, err := readState(ctx, c, q.entries.Kind, q.entries.Name, nil, everyone)
	for _, c := range all {
		c.Payload = nil
		for _, m := range plan.Members {
			if m.Token == c.Token {
				c.Payload = []byte(ranges(m.Holds))
			}
		}
		q.addMember(c, "member")
	}
	return q, err
}

// partitionGroup begins the name of the group of a partition's members.
const partitionGroup = "partition/"

// ofPartition returns the name of the partition to which a queue belongs.
func ofPartition(n coordinator.QueueName) (name string, ok bool) {
	switch n.Kind {
	case "group":
		return strings.CutPrefix(n.Name, partitionGroup)
	case "partition-shard":
		i := strings.LastIndex(n.Name, "/")
		return n.Name[:max(i, 0)], i > 0
	}
	return "", false
}

// ranges writes sorted numbers as "0-3, 7".
func ranges(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(all[i])
		if j > i {
			part += "-" + strconv.Itoa(all[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

func readShard(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "partition-shard", name)
	all, _, err := readState(ctx, c, q.Kind, name, nil, recipes.Exclusive)
	for _, c := range all {
		q.add(c, "exclusive", 0)
	}
	return q, err
}

// number is the record of a counter. A plain number is one too.
type number struct{ value *int64 }

func (n *number) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &n.value) == nil {
		return nil
	}
	var record struct{ Value *int64 }
	err := json.Unmarshal(text, &record)
	if n.value = record.Value; err == nil && n.value == nil {
		err = fmt.Errorf("no value")
	}
	return err
}

// readNumber returns the reader of a counter or of an allocator of numbers.
// Their queue has writers under contention only.
func readNumber(kind string) reader {
	return func(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
		q := newView(c, kind, name)
		var n number
		all, _, err := readState(ctx, c, kind, name, &n, recipes.Exclusive)
		q.Value = n.value
		for _, c := range all {
			q.add(c, "exclusive", 0)
		}
		return q, err
	}
}

func readBarrier(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "barrier", name)
	var state struct{ Set *bool }
	_, _, err := readState(ctx, c, q.Kind, name, &state, recipes.Exclusive)
	q.Set = state.Set
	return q, err
}

// readDouble reads a double barrier. A member that leaves has two entries.
func readDouble(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "double-barrier", name)
	var state struct {
		Round   int64
		Over    bool
		Members []struct{ Token coordinator.Token }
	}
	all, _, err := readState(ctx, c, q.Kind, name, &state, everyone)
	q.Round = state.Round
	for _, c := range all {
		mode, inside := "enter", false
		if strings.HasPrefix(c.Mode, "l") {
			mode = "leave"
		} else if !state.Over {
			for _, m := range state.Members {
				inside = inside || m.Token == c.Token
			}
		}
		c.Holding = c.Holding && inside
		q.addMember(c, mode)
	}
	return q, err
}

// readOnce reads a once. Its queue has the process that runs the work, and
// those that wait for it.
func readOnce(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	q := newView(c, "once", name)
	var record struct{ Runs []runView }
	all, found, err := readState(ctx, c, q.Kind, name, &record, recipes.Exclusive)
	if q.Runs = record.Runs; err == nil && found && q.Runs == nil {
		q.Runs = []runView{}
	}
	for _, c := range all {
		q.add(c, "exclusive", 0)
	}
	return q, err
}
