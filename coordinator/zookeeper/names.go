package zookeeper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

// This file has the names of the nodes in a queue, and their order:
//
//	<mode>_<id>_<session>_<sequence>                one that joined
//	<mode>_<id>_<session>_<token>_<n>_<sequence>    the same after its n-th conversion
//	successor_<sequence>    the successor node of the entry whose number is one less
//
// All parts are readable in one listing, so that no node has to be read to
// know the order of the queue and the session of each entry.
//
// A conversion makes a new node, which has a zxid of its own. So its name says
// what stays: the sequence number, which is the place in the queue, and the
// token, which for one that joined is the node's czxid. The number of the
// conversion makes the name one that was never used, also when a mode comes
// back.

// node is one child of a queue.
type node struct {
	driver.Place
	seq         int32
	conversions uint32       // how many conversions it has seen
	token       driver.Token // if there were any; else the node's czxid is the token
}

// nodePrefix is what the service appends a sequence number to.
func nodePrefix(c driver.Contender, session string) string {
	return c.Mode + "_" + c.ID + "_" + session + "_"
}

// converted is n with another mode. Asked again it gives the same.
func (n node) converted(mode string, token driver.Token) node {
	n.Mode, n.token = mode, token
	n.conversions++
	prefix := nodePrefix(driver.Contender{ID: n.ID, Mode: mode}, n.Session)
	n.Key = fmt.Sprintf("%s%016x_%x_%010d", prefix, uint64(token), n.conversions, n.seq)
	return n
}

// tokenOr is the node's token, if czxid is its czxid.
func (n node) tokenOr(czxid int64) driver.Token {
	if n.conversions > 0 {
		return n.token
	}
	return driver.Token(czxid)
}

// parseNode reads the name of a child that Baton wrote; ok is false for all
// others, and for a successor node.
func parseNode(name string) (n node, ok bool) {
	parts := strings.Split(name, "_")
	switch len(parts) {
	case 4:
	case 6:
		if n.token, n.conversions, ok = parseConversion(parts[3], parts[4]); !ok {
			return node{}, false
		}
	default:
		return node{}, false
	}
	if nodes.CheckMode(parts[0]) != nil || nodes.CheckID(parts[1]) != nil ||
		!nodes.Within(parts[2], 1, 16, nodes.IsHex) {
		return node{}, false
	}
	n.Place = driver.Place{Key: name, ID: parts[1], Mode: parts[0], Session: parts[2]}
	n.seq, ok = nodes.Sequence(parts[len(parts)-1])
	return n, ok
}

// conversion reads the parts that a conversion adds, in the form in which they
// are written and no other.
func parseConversion(token, number string) (driver.Token, uint32, bool) {
	t, _ := strconv.ParseUint(token, 16, 63)
	n, _ := strconv.ParseUint(number, 16, 32)
	written := fmt.Sprintf("%016x %x", t, n) == token+" "+number
	return driver.Token(t), uint32(n), t > 0 && n > 0 && written
}

// late tells that the sequence number is one of those that a service gives when
// it has run out of them.
//
// It counts the joins and conversions of a queue in 32 bits. What comes after
// 2147483647 depends on the release: in some the count wraps; others, 3.8 among
// them, stay there and give that number to everybody, apart from joins that
// arrive together, of which the later ones get negative numbers. So no order
// follows from such numbers, and two contenders may have the same.
func (n node) overflowed() bool { return n.seq < 0 || n.seq == math.MaxInt32 }

// inOrder sorts the nodes of one queue, first in the queue first, for as long
// as none is late.
//
// The signed distance to a fixed node is right on both sides of a wrap too, as
// long as fewer than 2^31 numbers lie between two nodes that are there at once.
// Comparing strings or plain integers is wrong there: a newcomer would overtake
// the holder.
func sortBySequence(all []node) {
	if len(all) == 0 {
		return
	}
	pivot := all[0].seq // which node does not matter
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.seq-pivot, b.seq-pivot) })
}

// queueView is the children of a queue at one moment.
type queueView struct {
	nodes      []node   // in order
	successors []int32  // their sequence numbers, in no order
	strays     []string // those that Baton did not write, quoted
}

// parseChildren reads the children of a queue.
func parseChildren(names []string) queueView {
	c := queueView{nodes: make([]node, 0, len(names))}
	for _, name := range names {
		if seq, ok := parseSuccessor(name); ok {
			c.successors = append(c.successors, seq)
		} else if n, ok := parseNode(name); ok {
			c.nodes = append(c.nodes, n)
		} else {
			c.strays = append(c.strays, strconv.Quote(name))
		}
	}
	sortBySequence(c.nodes)
	return c
}

// places are those of the nodes, in order.
func (c queueView) places() []driver.Place {
	places := make([]driver.Place, len(c.nodes))
	for i, n := range c.nodes {
		places[i] = n.Place
	}
	return places
}

// ambiguous is the error for a queue with strays, nil if there are none.
//
// Leaving a stray out could admit two contenders if it belongs to a client that
// counts it, and waiting for it could take for ever; so it is reported by name,
// and an operator has to remove it.
func (c queueView) ambiguous(queue driver.Queue) error {
	if len(c.strays) == 0 {
		return nil
	}
	slices.Sort(c.strays)
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"queue %q has children that are no entries of Baton's, which have no place in it: %s",
		queue, strings.Join(c.strays, ", ")))
}
