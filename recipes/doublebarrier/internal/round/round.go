// Package round is the record of a double barrier: the round of its members.
package round

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// Round is the current round, or the last one.
type Round struct {
	Round   int64             `json:"round"`
	Members []Member          `json:"members"`
	Last    coordinator.Token `json:"last"` // the greatest of any member so far
	Over    bool              `json:"over"`
	Broken  []Broken          `json:"broken,omitempty"` // the last of them
}

// Member is a member of a round.
type Member struct {
	Token    coordinator.Token `json:"token"`
	Entry    string            `json:"entry"` // see Entry
	Identity string            `json:"identity"`
}

// Entry is a short name of the entry with a key: a service takes 64 KiB, and
// etcd's keys can be longer than 800 bytes. A key has no other use ever.
func Entry(key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// Broken is a round that has lost members.
type Broken struct {
	Round int64    `json:"round"`
	Lost  []string `json:"lost"`
}

// These bound a record of 200 members. maxBroken is how many broken rounds are
// kept, for members that are slow to read the record.
const (
	maxBroken   = 4
	maxLost     = 20 // identities of a broken round
	maxIdentity = 64 // bytes
)

// Decode reads a record. Without one, a round is over.
func Decode(r driver.Record, err error) (s Round, _ driver.Version, _ error) {
	if err != nil || r.Version == 0 {
		return Round{Over: true}, 0, err
	}
	if json.Unmarshal(r.Value, &s) != nil || s.Round < 1 || len(s.Members) == 0 {
		return s, 0, fmt.Errorf("%w: the record at the name is not a double barrier's: %.80q",
			coordinator.ErrRefused, r.Value)
	}
	return s, r.Version, nil
}

// Encode returns the record.
func (s Round) Encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // takes six bytes for one
	_ = e.Encode(s)        // never fails for numbers and strings
	return b.Bytes()
}

// Mode is the mode of an entry to enter as one of n members.
func Mode(n int) string { return "e" + strconv.Itoa(n) }

// Entering reports whether a mode is that of an entry to enter, as one of any
// number.
func Entering(mode string) bool { return strings.HasPrefix(mode, "e") }

// Next returns the next round of n members, or ok false if fewer wait. Rounds
// take the entries in order, so those up to s.Last belong to earlier rounds.
func (s Round) Next(list []recipes.Contender, n int) (next Round, ok bool, err error) {
	next = Round{Round: s.Round + 1, Broken: s.Broken}
	for _, c := range list {
		switch {
		case !Entering(c.Mode) || c.Token <= s.Last || len(next.Members) == n:
		case c.Mode != Mode(n):
			return next, false, fmt.Errorf("%w: %s enters as one of %s members, not of %d",
				coordinator.ErrInvalid, engine.Printable(c.Identity), engine.Printable(c.Mode[1:]), n)
		default:
			identity := strings.ToValidUTF8(c.Identity[:min(len(c.Identity), maxIdentity)], "")
			next.Members = append(next.Members, Member{c.Token, Entry(c.Key), identity})
			next.Last = c.Token
		}
	}
	return next, len(next.Members) == n, nil
}

// End returns the round when it is over, and has lost members.
func (s Round) End(lost []string) Round {
	s.Over = true
	if len(lost) > 0 {
		lost = lost[:min(len(lost), maxLost)]
		s.Broken = append(slices.Clone(s.Broken), Broken{s.Round, lost})
		s.Broken = s.Broken[max(0, len(s.Broken)-maxBroken):]
	}
	return s
}

// Lost returns which members a round that is over has lost. With ok false that
// is not known any more.
func (s Round) Lost(n int64) (lost []string, ok bool) {
	for _, b := range s.Broken {
		if b.Round == n {
			return b.Lost, true
		}
	}
	return nil, len(s.Broken) < maxBroken || n > s.Broken[0].Round
}

// Find returns the index of the member whose entry has a key, or -1.
func (s Round) Find(key string) int {
	entry := Entry(key)
	return slices.IndexFunc(s.Members, func(m Member) bool { return m.Entry == entry })
}

// Identities returns those of all members.
func (s Round) Identities() (all []string) {
	for _, m := range s.Members {
		all = append(all, m.Identity)
	}
	return all
}
