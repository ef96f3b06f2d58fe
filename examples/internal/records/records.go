// Package records is the database of the examples: a directory of records that
// processes of one machine share. A record changes as a whole or not at all,
// and no change is lost. It stands for a table of the database that a real
// service has.
//
// A record is a directory with a file for each version, and the greatest number
// counts. A version is written aside and linked to its number, which fails if
// somebody else was faster: then the change is made again, to what that one has
// left. Versions are never removed, so they are a history, too, and a number
// that was used once is never free again. What is written survives the death of
// a process, and not that of the machine.
package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/fence"
)

// Store is a directory of records.
type Store string

const suffix = ".json"

// History reads all versions of a record, the oldest first.
func History[T any](s Store, key string) ([]T, error) {
	last, err := s.last(key)
	if err != nil {
		return nil, err
	}
	all := make([]T, last)
	for i := range all {
		if all[i], err = read[T](s.version(key, i+1)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Read reads a record. One that is not there is zero.
func Read[T any](s Store, key string) (value T, err error) {
	last, err := s.last(key)
	if err != nil || last == 0 {
		return value, err
	}
	return read[T](s.version(key, last))
}

// Update changes a record: the values that one change saw, and those that it
// left, have no other between them. If change returns an error nothing is
// written. It may be called again, with what somebody else has left meanwhile.
func Update[T any](s Store, key string, change func(*T) error) error {
	if err := os.MkdirAll(s.record(key), 0o700); err != nil {
		return err
	}
	for {
		last, err := s.last(key)
		if err != nil {
			return err
		}
		var value T
		if last > 0 {
			if value, err = read[T](s.version(key, last)); err != nil {
				return err
			}
		}
		if err := change(&value); err != nil {
			return err
		}
		if err := s.write(key, last+1, value); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

func (s Store) record(key string) string {
	return filepath.Join(string(s), url.PathEscape(key)+".d")
}

func (s Store) version(key string, n int) string {
	return filepath.Join(s.record(key), strconv.Itoa(n)+suffix)
}

// last is the number of the version that counts, 0 if there is none.
func (s Store) last(key string) (last int, err error) {
	files, err := os.ReadDir(s.record(key))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, f := range files {
		digits, found := strings.CutSuffix(f.Name(), suffix)
		if n, err := strconv.Atoi(digits); found && err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

func (s Store) write(key string, n int, value any) (err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	aside, err := os.CreateTemp(s.record(key), "aside-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(aside.Name()) }()
	_, err = aside.Write(text)
	if err := errors.Join(err, aside.Close()); err != nil {
		return err
	}
	return os.Link(aside.Name(), s.version(key, n))
}

func read[T any](path string) (value T, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}

// Guard is the part of a record that refuses those who are late.
type Guard struct {
	Latest fence.Sequencer `json:"latest,omitzero"`
}

// Admit refuses a sequencer if a later one was here, or one of another lock or
// service, and otherwise remembers it. Call it in each change that is made
// under a lock, and in each reading on which such a change is based.
func (g *Guard) Admit(shown fence.Sequencer) error {
	if (g.Latest != fence.Sequencer{}) {
		order, err := shown.Compare(g.Latest)
		if err != nil {
			return err
		}
		if order < 0 {
			return &fence.StaleError{Shown: shown, Latest: g.Latest.Token}
		}
	}
	g.Latest = shown
	return nil
}
