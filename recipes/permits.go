package recipes

import (
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// MaxPermits is the greatest number of permits, and the greatest limit. Twice
// that is an int everywhere, and it fits a mode beside a version.
const MaxPermits = 1_000_000_000

// The modes of contenders for permits: "p3v00a1" is queued for three, by
// the record of a version that ends in "00a1", and "h3" says that it has them.
// Who is admitted stays a "p" as long as nobody can take it for a waiter; see
// Permits.
const (
	asking  = 'p'
	holding = 'h'
	by      = "v"

	versionDigits, versionBase = 4, 36
	versions                   = versionBase * versionBase * versionBase * versionBase
)

// Asking is the mode of a contender for n permits that joins by the record of a version.
func Asking(n int, version driver.Version) string {
	v := strconv.FormatInt(part(version), versionBase)
	return string(asking) + strconv.Itoa(n) + by + "0000"[len(v):] + v
}

// part is what a mode shows of a version. Two versions that a queue's record has
// one after the other look alike once in more than a million times at most.
func part(v driver.Version) int64 { return (int64(v)%versions + versions) % versions }

// Holding is the mode of a holder of n permits who says so.
func Holding(n int) string { return string(holding) + strconv.Itoa(n) }

// Contention is what a mode says of a contender for permits.
type Contention struct {
	N       int            // so many permits
	Held    bool           // it says that it has them; or else
	Version driver.Version // it asks for them, by the record of a version that ends like this one
}

// PermitsOf reads a mode. ok is false for one that is not about permits.
func PermitsOf(mode string) (c Contention, ok bool) {
	if len(mode) < 2 || mode[0] != asking && mode[0] != holding {
		return Contention{}, false
	}
	c.Held = mode[0] == holding
	n, version, versioned := strings.Cut(mode[1:], by)
	if versioned == c.Held || versioned && len(version) != versionDigits {
		return Contention{}, false
	}
	if versioned {
		v, err := strconv.ParseUint(version, versionBase, 64)
		if err != nil {
			return Contention{}, false
		}
		c.Version = driver.Version(v)
	}
	if n == "" || n[0] < '1' || n[0] > '9' || strings.ToLower(version) != version {
		return Contention{}, false // Asking and Holding do not write it like that
	}
	var err error
	c.N, err = strconv.Atoi(n)
	return c, err == nil && c.N > 0 && c.N <= MaxPermits
}

// HoldsPermits says of a mode whether it is that of a holder who says so. See Terms.Counts.
func HoldsPermits(mode string) bool {
	c, ok := PermitsOf(mode)
	return ok && c.Held
}

// Permits admits a contender for n permits when those ahead and its own
// together are within the limit, which is that of the record of a version.
// Nobody is overtaken: whoever must wait counts like one who holds.
//
// Holders leave in any order, so the first who waits has to hear of each of
// them, and of a change of the limit. All others behind him hear of him alone,
// or every leaving would wake the whole queue. But he may be admitted and stay,
// and then the next one must take his part: that is what "h" is for. Whoever is
// admitted and has somebody behind, converts his entry; the one behind is told,
// as of every conversion of the entry that it watches. Whoever was admitted
// with nobody behind need not: all who come later by the same record count, and
// see that he was within the limit.
//
// That is so while all go by one limit. Of one who asks by another record
// nobody can tell whether he waits, nor what he has read meanwhile, so nobody
// is admitted past him; he is told of the leavings before him, and nobody else
// needs to be. Whose limit changed while he waited converts in any case, as
// soon as he is admitted: his view can be older than the change, and somebody
// may have joined in between by the old one. And so does a hold that lasts, a
// quarter of a second after it began: so long at most does it look like one who
// waits to those who join by a newer record. While the service refuses
// conversions, for want of space or permission, those behind may wait for
// longer than they have to, until the one ahead of them leaves.
//
// Whose limit changed while he waited counts those holders behind him, too, who
// say that they hold (see Terms.Counts): they came by the limit that he came
// by, and it may have been greater. They are shown to this rule in front of the
// others.
//
// The tests of package semaphore have a model of this, and of what goes wrong
// without each part of it.
//
// A contender with another mode, a foreign one for instance, shuts the queue behind it.
func Permits(limit int, version driver.Version, n int) Rule {
	mine := driver.Version(part(version))
	return func(ahead []driver.Place) Verdict {
		used, waiting, unknown := 0, -1, false
		for i, p := range ahead {
			c, ok := PermitsOf(p.Mode)
			if !ok {
				c = Contention{N: limit, Version: mine}
			}
			used = min(used+c.N, limit+1) // more does not matter, and might not be an int
			other := !c.Held && c.Version != mine
			if unknown = unknown || other; other || used > limit && !c.Held {
				waiting = i
			}
		}
		switch {
		case !unknown && n <= limit-used:
			return Verdict{Admitted: true}
		case waiting >= 0:
			return Verdict{Watch: ahead[waiting : waiting+1]}
		}
		return Verdict{Watch: ahead, Record: true}
	}
}
