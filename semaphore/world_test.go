package semaphore_test

import "fmt"

// This file is a model of the whole protocol of a semaphore: the service's queue with its past, and
// contenders that go by the real rule. Every step is one that the service or a client does at once; what may take time
// between two steps does, since any step of another can come first.

const (
	crowd   = 5 // contenders at most
	depth   = 4 // how many states of the queue a late view can show
	records = 4 // versions of the record at most, 0 the first
)

// mark is an entry: k + 8v asks for k by the record of version v, -k holds k, 0 is not there.
type mark int8

func asks(n, version int8) mark { return mark(n + 8*version) }

func (m mark) n() int8 {
	if m < 0 {
		return int8(-m)
	}
	return int8(m) & 7
}

func (m mark) version() int8 { return int8(m) >> 3 }

// moment is the queue at one time.
type moment [crowd]mark

type phase int8

const (
	outside phase = iota
	looking       // joined or woken; its next view may be an old one
	reading       // it would be admitted by what it saw, and reads the record
	sleeping
	holding
	gone
)

// one is a contender, as it knows itself.
type one struct {
	phase  phase
	n      int8
	joined int8    // the version of the record by which it joined,
	mine   int8    // and of the one that it goes by
	slept  bool    // it may have changed since it was read
	lost   bool    // the reply to its first join was lost
	last   bool    // while it reads: it saw nobody behind
	late   bool    // while it holds: its limit was changed before it was admitted
	floor  int8    // the oldest state that a view may show it
	since  int8    // the record that was in force when it joined or was woken last
	watch  uint8   // whom it watches, as bits
	record bool    // it watches the record; once it is woken: and may be told of that, too
	marks  [2]mark // the conversions of its entry that are under way
}

func (c *one) moved() bool { return c.mine != c.joined }

// world is everything. It can be compared: two that are equal go on alike.
type world struct {
	limits  [records]int8 // by the version of the record
	version int8          // of the present one
	age     [records]int8 // how many states of the queue ago a record was written
	moves   int8          // so many times the limit may be changed yet,
	parts   int8          // so many partial releases come yet,
	drops   int8          // and so many replies to joins get lost
	who     [crowd]one
	past    [depth]moment // the present first
}

func (w *world) limit() int8 { return w.limits[w.version] }

// most is the greatest limit that was in force since a version.
func (w *world) most(since int8) (most int8) {
	for _, l := range w.limits[since : w.version+1] {
		most = max(most, l)
	}
	return most
}

// sum is what stands ahead of i.
func (l moment) sum(i int) (sum int8) {
	for _, m := range l[:i] {
		sum += m.n()
	}
	return sum
}

// held is what those behind i have who say so.
func (l moment) held(i int) (sum int8) {
	for _, m := range l[i+1:] {
		if m < 0 {
			sum += m.n()
		}
	}
	return sum
}

func (l moment) behind(i int) bool {
	for _, m := range l[i+1:] {
		if m != 0 {
			return true
		}
	}
	return false
}

// scene is a world before anything happens.
type scene struct {
	limit, most         int8 // the limit, and the highest that it may be changed to
	moves, parts, drops int8
	ask                 []int8
}

func (s scene) String() string {
	return fmt.Sprintf("%v of %d, moves %d to %d, parts %d, drops %d", s.ask, s.limit, s.moves, s.most, s.parts, s.drops)
}

func (s scene) world() world {
	w := world{moves: s.moves, parts: s.parts, drops: s.drops}
	w.limits[0] = s.limit
	for i, n := range s.ask {
		w.who[i].n = n
	}
	return w
}
