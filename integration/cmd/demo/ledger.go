package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// errStale is the ledger's answer to a token smaller than the greatest it has
// seen.
var errStale = errors.New("the token is old")

// record is one line of the ledger.
type record struct {
	Worker int    `json:"worker"`
	Token  int64  `json:"token"`
	Kind   string `json:"kind"` // begin, work, end, or refused
	At     int64  `json:"at"`   // wall clock in nanoseconds; all workers are on one machine
}

// ledger is the resource that the lock protects: a file to which all workers
// append. As any resource should with fencing tokens, it refuses tokens smaller
// than the greatest it has seen, and records the refusal.
//
// The file lock only makes one append atomic; it does not exclude the workers.
type ledger struct{ path string }

// append adds a record unless its token is stale.
func (l ledger) append(r record) error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", l.path, err)
	}
	records, err := decode(f)
	if err != nil {
		return err
	}
	var newest int64
	for _, old := range records {
		newest = max(newest, old.Token)
	}
	stale := r.Token < newest
	if stale {
		r.Kind = "refused"
	}
	r.At = time.Now().UnixNano()
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	if stale {
		return fmt.Errorf("%w: %d after %d", errStale, r.Token, newest)
	}
	return nil
}

// free reports whether no append is in progress.
func (l ledger) free() bool {
	f, err := os.OpenFile(l.path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	for range 20 {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return true // closing unlocks
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// read returns all records.
func (l ledger) read() ([]record, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decode(f)
}

func decode(r io.Reader) ([]record, error) {
	var all []record
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var rec record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return nil, fmt.Errorf("ledger line %d: %w", len(all)+1, err)
		}
		all = append(all, rec)
	}
	return all, lines.Err()
}

// audit is the summary of the ledger.
type audit struct {
	grants   map[int]int     // by worker
	tokens   map[int][]int64 // by worker, in order
	refused  map[int]int     // by worker
	overlaps int             // a record of one hold between begin and end of another
	disorder int             // a hold with a token that is not greater than the previous one
	gaps     []time.Duration // from an end to the next begin
}

// check checks the ledger. A hold whose worker was killed or stopped has no
// end; a record of it after the next begin would be an overlap.
func check(records []record, interrupted map[int64]bool) audit {
	a := audit{grants: map[int]int{}, tokens: map[int][]int64{}, refused: map[int]int{}}
	var open, last int64 // token of the current hold, and of the latest begin
	var ended int64
	for _, r := range records {
		switch {
		case r.Kind == "refused":
			a.refused[r.Worker]++
			continue
		case r.Kind == "begin":
			if open != 0 && !interrupted[open] {
				a.overlaps++
			}
			if r.Token <= last {
				a.disorder++
			}
			if ended != 0 {
				a.gaps = append(a.gaps, time.Duration(r.At-ended))
			}
			open, last = r.Token, r.Token
			a.grants[r.Worker]++
			a.tokens[r.Worker] = append(a.tokens[r.Worker], r.Token)
		case r.Token != open:
			a.overlaps++
		}
		ended = 0
		if r.Kind == "end" {
			open, ended = 0, r.At
		}
	}
	return a
}
