package semaphore

import (
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// MaxLimit is the greatest limit. Twice that is an int everywhere, and it fits
// a mode beside a version.
const MaxLimit = 1_000_000_000

// The modes of contenders for permits: "p3v00a1" asks for three and joined by
// the record of a version that ends in "00a1"; "h3" holds three and says so. An
// admitted contender keeps its "p" as long as nobody can take it for a waiter;
// see permits.
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

// part is what a mode shows of a version. Two successive versions of a queue's
// record look alike once in more than a million times at most.
func part(v driver.Version) int64 { return (int64(v)%versions + versions) % versions }

func holdingMode(n int) string { return string(holding) + strconv.Itoa(n) }

// contention is what a mode says of a contender.
type contention struct {
	n       int            // permits it holds or asks for
	held    bool           // it says that it holds them
	version driver.Version // part of the record's version by which it asks, unless held
}

// parseMode reads a mode. ok is false for one that neither askingMode nor
// holdingMode writes.
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

// permits admits a contender for n permits when those ahead and its own
// together are within the limit, which is that of the record of a version.
// Nobody is overtaken: a waiter counts like a holder.
//
// Holders leave in any order, so the first waiter watches all of them, and the
// record. Each waiter behind it watches only the nearest waiter ahead, or every
// release would wake the whole queue. When the first waiter is admitted, it
// converts its entry to "h", which wakes the waiter behind it to become the
// first. A contender admitted with nobody behind it need not convert: later
// contenders of the same record count, and see that it is within the limit.
//
// A contender that joined by another record may hold or wait; nobody can tell.
// So nobody is admitted past it, and it is watched like a waiter. Three
// conversions resolve that: a contender whose limit changed while it waited
// converts as soon as it is admitted; every hold converts after
// engine.SettleAfter; and a contender whose limit changed counts holders behind
// it, too, that say that they hold (see recipes.Terms.Counts), since they may
// have joined by a greater limit. They are shown to this rule in front of the
// others. While the service refuses conversions, for want of space or
// permission, those behind may wait until the one ahead of them leaves.
//
// A contender with an unknown mode, a foreign one for instance, takes the whole
// limit. docs/model has a model of this.
func permits(limit int, version driver.Version, n int) recipes.Rule {
	mine := driver.Version(part(version))
	return func(ahead []driver.Place) recipes.Verdict {
		used, waiting, unknown := 0, -1, false
		for i, p := range ahead {
			c, ok := parseMode(p.Mode)
			if !ok {
				c = contention{n: limit, version: mine}
			}
			used = min(used+c.n, limit+1) // more does not matter, and might not be an int
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
