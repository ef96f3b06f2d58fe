package register

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// record is the record of a counter at the service, as JSON. It says who made
// the latest writes, so that a writer without a reply can find out whether its
// write was applied.
type record struct {
	Value int64 `json:"value"`
	// Writes is the number of the latest write.
	Writes int64 `json:"writes"`
	// Forgotten is the greatest number of a write that Writers no longer shows
	// although its writer has written nothing since.
	Forgotten int64 `json:"forgotten,omitempty"`
	// Writers has the number of the latest write of each writer.
	Writers map[string]int64 `json:"writers"`
}

// maxWriters bounds the size of a record, to some 1,200 bytes.
const maxWriters = 32

// decode reads a record. A missing one is 0. A plain number was written by
// hand, and is the value too.
//
// What was written by hand says nothing about earlier writes. The next write
// gets a random number, so that no writer finds the number of its own write
// under another history.
func decode(r driver.Record) State {
	if r.Version == 0 {
		return State{}
	}
	var read struct {
		record
		Value *int64 `json:"value"` // nil if it is missing
	}
	err := json.Unmarshal(r.Value, &read)
	known := err == nil && read.Value != nil
	if known && read.Writes > 0 {
		read.record.Value = *read.Value
		return State{record: read.record, version: r.Version}
	}
	begin := 1<<40 + rand.Int64N(1<<51)
	s := State{record: record{Writes: begin, Forgotten: begin}, version: r.Version}
	if text := string(bytes.TrimSpace(r.Value)); known {
		s.Value = *read.Value
	} else if s.Value, err = strconv.ParseInt(text, 10, 64); err != nil {
		s.bad = fmt.Errorf("%w: the record at the name is not a counter: %.80q",
			coordinator.ErrRefused, text)
	}
	return s
}

// write is a write that was sent: the record with which it replaces the record
// of a version. Its number and its writer identify it.
type write struct {
	record
	writer string
	over   driver.Version
	bytes  []byte
}

// next returns the write of a value over s.
func (s State) next(writer string, value int64) write {
	after := record{Value: value, Writes: s.Writes + 1, Forgotten: s.Forgotten,
		Writers: make(map[string]int64)}
	maps.Copy(after.Writers, s.Writers)
	after.Writers[writer] = after.Writes
	for len(after.Writers) > maxWriters {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(after.Writers)), func(a, b string) int {
			return cmp.Compare(after.Writers[a], after.Writers[b])
		})
		after.Forgotten = max(after.Forgotten, after.Writers[oldest])
		delete(after.Writers, oldest)
	}
	b, _ := json.Marshal(after) // never fails for numbers and hex digits
	return write{record: after, writer: writer, over: s.version, bytes: b}
}

// fate is what a state says about a write without a reply.
type fate int

const (
	pending fate = iota // the record is still the one that it replaces
	applied             // it was applied, once
	refused             // another write replaced that record, so it never will be
	unknown             // the record is older, or its history does not go back so far
)

// fate reports what was done with w.
//
// A write is applied only over its own version, so at most once, however often
// it was sent, and exactly one write has its number. The writer has sent no
// other write with its ID and this number: see update.prepare.
func (w write) fate(now State) fate {
	switch {
	case now.version == w.over:
		return pending
	case now.Writes < w.Writes || w.Writes <= now.Forgotten:
		return unknown
	case now.Writers[w.writer] == w.Writes:
		return applied
	}
	return refused
}
