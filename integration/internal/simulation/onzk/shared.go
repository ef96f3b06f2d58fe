package onzk

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/baton-go/baton/integration/internal/simulation"
)

// Shared are worlds on queues that are stored as Curator or Kazoo store them.
// They have the recipes that are one queue there, without the options that
// these clients would not respect. Only Baton contends.
var Shared = simulation.Kind{
	Test:    "TestSimulationOnSharedQueues",
	New:     newShared,
	Recipes: []string{"mutex", "rwlock", "election"},
	Without: []string{"lock-delay", "retain", "share reads", "proclaim", "priority", "transfer"},
}

func newShared(c simulation.Conditions) (simulation.Service, error) {
	return newServiceOf(c, []string{"curator", "kazoo"}[c.Seed%2])
}

// sharedName is the name of an entry: the contender and some digits of its
// session, the recipe's mark, and the sequence number.
var sharedName = regexp.MustCompile(
	`^(?:_c_)?([0-9a-f-]{32,36}?)-?(lock-|__READ__|__WRIT__|latch-|__lock__|__rlock__)(-?\d{10,})$`)

// shortID is how many digits the ID of a contender of a lock has.
const shortID = 16

// parseShared reads a path in the layout of another client.
func (l layout) parseShared(path string) (n named, ok bool) {
	n.successor, n.seq = -1, -1
	rest, below := strings.CutPrefix(path, l.base())
	name, key, in := strings.Cut(rest, "/")
	if n.queue, n.key = l.world.Queue(name), key; !below || !in || n.queue == "" {
		return n, false
	}
	parts := sharedName.FindStringSubmatch(key)
	if parts == nil {
		return n, true
	}
	n.id = strings.ReplaceAll(parts[1], "-", "")[:shortID]
	switch parts[2] {
	case "__READ__", "__rlock__":
		n.mode = "r"
	case "__WRIT__":
		n.mode = "w"
	default:
		if n.mode = "x"; strings.HasPrefix(string(n.queue), "rwlock/") {
			n.mode = "w"
		}
	}
	n.seq, _ = strconv.ParseInt(parts[3], 10, 32)
	return n, true
}
