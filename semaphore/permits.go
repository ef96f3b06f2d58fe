package semaphore

import (
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// MaxLimit is the greatest limit.
const MaxLimit = 1_000_000_000

// The modes of contenders for permits: "p3v00a1" asks for three permits, and
// joined with a version of the record that ends in "00a1"; "h3" holds three. An
// admitted contender keeps its "p" while no other contender can mistake it for
// a waiter: see permits.
const (
	asking  = 'p'
	holding = 'h'
	by      = "v"

	versionDigits, versionBase = 4, 36
	versions                   = versionBase * versionBase * versionBase * versionBase
)

func askingMode(n int, version driver.Version) string {
	v := strconv.FormatInt(part(version), versionBase)
	return string(asking) + strconv.Itoa(n) + by + "0000"[len(v):] + v
}

// part is the part of a version that a mode shows. Two successive versions
// collide at most once in a million times.
func part(v driver.Version) int64 { return (int64(v)%versions + versions) % versions }

func holdingMode(n int) string { return string(holding) + strconv.Itoa(n) }

// contention is a parsed mode.
type contention struct {
	n       int            // permits that it holds or asks for
	held    bool           // the mode is a holder's
	version driver.Version // part of the record's version at the join, unless held
}

// parseMode parses a mode. ok is false unless askingMode or holdingMode wrote
// it.
func parseMode(mode string) (c contention, ok bool) {
	if len(mode) < 2 || mode[0] != asking && mode[0] != holding {
		return contention{}, false
	}
	c.held = mode[0] == holding
	n, version, versioned := strings.Cut(mode[1:], by)
	if versioned == c.held || versioned && len(version) != versionDigits {
		return contention{}, false
	}
	if versioned {
		v, err := strconv.ParseUint(version, versionBase, 64)
		if err != nil {
			return contention{}, false
		}
		c.version = driver.Version(v)
	}
	if n == "" || n[0] < '1' || n[0] > '9' || strings.ToLower(version) != version {
		return contention{}, false
	}
	var err error
	c.n, err = strconv.Atoi(n)
	return c, err == nil && c.n > 0 && c.n <= MaxLimit
}

func saysHeld(mode string) bool {
	c, ok := parseMode(mode)
	return ok && c.held
}

// permits admits a contender for n permits if the permits ahead and its own do
// not exceed the limit of the record with the given version. A waiter ahead
// counts like a holder, so no contender overtakes.
//
// Holders leave in any order, so the first waiter watches all of them, and the
// record. Each waiter behind it watches only the nearest waiter ahead:
// otherwise every release would wake the whole queue. When the first waiter is
// admitted, it converts its entry to "h", which wakes the waiter behind it to
// become the first. A contender admitted at the end of the queue need not
// convert: later contenders of the same record count the permits, and see that
// it holds.
//
// A contender that joined with another version may hold or wait. So it is
// watched like a waiter, and no contender is admitted behind it, until a
// conversion shows that it holds: at once if its limit changed while it waited,
// and after engine.SettleAfter in each hold. A contender whose limit changed
// also counts the holders behind it (see recipes.Terms.Counts), which may have
// joined with a greater limit; this rule gets them in front of the others.
// While the service refuses conversions, contenders behind may wait until the
// entry ahead leaves.
//
// An unknown mode, for instance of a foreign entry, takes the whole limit.
// docs/model has a model of this.
func permits(limit int, version driver.Version, n int) recipes.Rule {
	mine := driver.Version(part(version))
	return func(ahead []driver.Place) recipes.Verdict {
		used, waiting, unknown := 0, -1, false
		for i, p := range ahead {
			c, ok := parseMode(p.Mode)
			if !ok {
				c = contention{n: limit, version: mine}
			}
			used = min(used+c.n, limit+1) // twice MaxLimit fits an int32
			other := !c.held && c.version != mine
			if unknown = unknown || other; other || used > limit && !c.held {
				waiting = i
			}
		}
		switch {
		case !unknown && n <= limit-used:
			return recipes.Verdict{Admitted: true}
		case waiting >= 0:
			return recipes.Verdict{Watch: ahead[waiting : waiting+1]}
		}
		return recipes.Verdict{Watch: ahead, Record: true}
	}
}
