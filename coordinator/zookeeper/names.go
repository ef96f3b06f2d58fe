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
	"github.com/baton-go/baton/internal/hint"
)

// This file has the names of the nodes in a queue, and their order:
//
//	<mode>_<id>_<session>_<sequence>                an entry as joined
//	<mode>_<id>_<session>_<token>_<n>_<sequence>    the same entry after its n-th conversion
//	successor_<sequence>    the successor node of the entry whose number is one less
//
// One listing shows all parts, so the order of the queue and the session of
// each entry are known without reading a node.
//
// A conversion creates a new node with a new czxid. So its name keeps the
// sequence number, which is the place in the queue, and the token, which for an
// unconverted entry is the czxid. With the number of the conversion the name
// was never used before, even if the entry returns to an earlier mode.

// node is an entry of a queue.
type node struct {
	driver.Place
	seq         int32
	conversions uint32
	token       driver.Token // if converted; else it is the czxid
}

// nodePrefix is a node's name before the sequence number that the service
// appends.
func nodePrefix(c driver.Contender, session string) string {
	return c.Mode + "_" + c.ID + "_" + session + "_"
}

// converted is n with another mode. Repeated, it returns the same.
func (n node) converted(mode string, token driver.Token) node {
	n.Mode, n.token = mode, token
	n.conversions++
	prefix := nodePrefix(driver.Contender{ID: n.ID, Mode: mode}, n.Session)
	n.Key = fmt.Sprintf("%s%016x_%x_%010d", prefix, uint64(token), n.conversions, n.seq)
	return n
}

// tokenOr returns the token of a node with this czxid.
func (n node) tokenOr(czxid int64) driver.Token {
	if n.conversions > 0 {
		return n.token
	}
	return driver.Token(czxid)
}

// parseNode parses the name of an entry. It fails for all other names, also of
// successor nodes.
func parseNode(name string) (n node, ok bool) {
	parts, count := cut(name)
	switch count {
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
	n.seq, ok = nodes.Sequence(parts[count-1])
	return n, ok
}

// cut splits a name, without an allocation: each lock parses two names. A count
// of more than 6 says that there are more parts.
func cut(name string) (parts [6]string, count int) {
	for part := range strings.SplitSeq(name, "_") {
		if count == len(parts) {
			return parts, count + 1
		}
		parts[count] = part
		count++
	}
	return parts, count
}

// parseConversion parses the parts that a conversion adds, in exactly the form
// that converted writes.
func parseConversion(token, number string) (driver.Token, uint32, bool) {
	t, _ := strconv.ParseUint(token, 16, 63)
	n, _ := strconv.ParseUint(number, 16, 32)
	written := fmt.Sprintf("%016x %x", t, n) == token+" "+number
	return driver.Token(t), uint32(n), t > 0 && n > 0 && written
}

// overflowed reports whether the service gave the sequence number after it ran
// out of them.
//
// The service counts a queue's joins and conversions in 32 bits. After
// 2147483647, some releases wrap. Others, 3.8 among them, give that number to
// every join, except that the later ones of joins arriving together get
// negative numbers. So such numbers give no order, and two contenders may have
// the same.
func (n node) overflowed() bool { return n.seq < 0 || n.seq == math.MaxInt32 }

// sortBySequence sorts the nodes of a queue of which none is overflowed.
//
// The signed distance to a fixed node is right on both sides of a wrap too, as
// long as fewer than 2^31 numbers lie between two nodes. Comparing strings or
// plain integers is wrong there: a new entry would overtake the holder.
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
	successors []int32  // their sequence numbers, unordered
	strays     []string // other names
}

func parseChildren(names []string) queueView {
	c := queueView{nodes: make([]node, 0, len(names))}
	for _, name := range names {
		if seq, ok := parseSuccessor(name); ok {
			c.successors = append(c.successors, seq)
		} else if n, ok := parseNode(name); ok {
			c.nodes = append(c.nodes, n)
		} else {
			c.strays = append(c.strays, name)
		}
	}
	sortBySequence(c.nodes)
	return c
}

func (c queueView) places() []driver.Place {
	places := make([]driver.Place, len(c.nodes))
	for i, n := range c.nodes {
		places[i] = n.Place
	}
	return places
}

// ambiguous returns the error for a queue with strays, else nil.
//
// Ignoring a stray could admit two contenders, if a client counts it. Waiting
// for it could take for ever. So the error names it, and an operator has to
// remove it.
func (c queueView) ambiguous(queue string) error {
	if len(c.strays) == 0 {
		return nil
	}
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"zookeeper: nodes that are not Baton's entries block the queue; %s%s",
		hint.OfZooKeeper, hint.Removal("zkCli.sh delete", queue+"/", c.strays...)))
}
