package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// parts is how many files a version of the cache has.
const parts = 5

// store is the cache: a directory with one directory for each version, which
// has the token of the lock under which it was written for a name. A version is
// written aside, and is complete from the moment that it gets its name. The
// greatest is the one that counts.
type store struct {
	dir string
}

// part is one file of a version.
type part struct {
	Token coordinator.Token `json:"token"` // of the lock under which it was written
	Time  time.Time         `json:"time"`
}

// versions matches the name of a version, and with a suffix that of one that is
// being written, or was given up.
var versions = regexp.MustCompile(`^(\d{20})(\.\d+)?$`)

func (s store) path(token coordinator.Token) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d", token))
}

func file(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("part-%d.json", i)) }

// each calls f for every directory of the store, in the order of their tokens.
func (s store) each(f func(path string, token coordinator.Token, complete bool)) {
	entries, _ := os.ReadDir(s.dir) // what cannot be read is not there; writing will tell
	for _, e := range entries {
		if m := versions.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.ParseUint(m[1], 10, 64)
			f(filepath.Join(s.dir, e.Name()), coordinator.Token(n), m[2] == "")
		}
	}
}

// greatest is the token of the version that counts, 0 if there is none.
func (s store) greatest() (greatest coordinator.Token) {
	s.each(func(_ string, token coordinator.Token, complete bool) {
		if complete {
			greatest = token
		}
	})
	return greatest
}

// look reads the version that counts: its token, 0 if there is none, and its
// age. The error says that it is damaged.
func (s store) look() (token coordinator.Token, age time.Duration, err error) {
	for {
		token = s.greatest()
		if token == 0 {
			return 0, 0, nil
		}
		age, err = s.read(token)
		if err == nil || s.greatest() == token {
			return token, age, err
		} // else it was replaced meanwhile: by one whose lock was lost, since the caller has a lock
	}
}

// read reads all files of a version.
func (s store) read(token coordinator.Token) (age time.Duration, err error) {
	for i := range parts {
		var p part
		b, err := os.ReadFile(file(s.path(token), i))
		if err != nil {
			return 0, err
		}
		if err := json.Unmarshal(b, &p); err != nil || p.Token != token {
			return 0, fmt.Errorf("%s is not what was written under token %d: %s", file(s.path(token), i), token, b)
		}
		age = max(age, time.Since(p.Time))
	}
	return age, nil
}

// write writes a version, which takes a while. It stops when ctx ends, which is
// that of a write lock.
//
// A late writer, one that has lost the lock and does not know it, changes
// nothing that others have written since: its version gets a smaller token than
// theirs, and none of their files is one of its own.
func (s store) write(ctx context.Context, token coordinator.Token) error {
	if greatest := s.greatest(); greatest >= token { // only to save the work, and to tell why
		return fmt.Errorf("%s is there, and this is token %d: another has the lock by now (or the service has lost its data: then delete the directory)",
			s.path(greatest), token)
	}
	aside, err := os.MkdirTemp(s.dir, filepath.Base(s.path(token))+".")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }() // unless it has its name by then
	for i := range parts {
		select {
		case <-time.After(20 * time.Millisecond): // the work
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b, err := json.Marshal(part{Token: token, Time: time.Now()})
		if err != nil {
			return err
		}
		if err := os.WriteFile(file(aside, i), b, 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(aside, s.path(token)); err != nil {
		return err
	}
	s.clean()
	return nil
}

// clean removes what has a smaller token than the version that counts. What
// cannot be removed is left to the next writer.
func (s store) clean() {
	greatest := s.greatest()
	s.each(func(path string, token coordinator.Token, _ bool) {
		if token < greatest {
			_ = os.RemoveAll(path)
		}
	})
}
