//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is an entry of the process table.
type process struct {
	pid, parent, group, session int
	name                        string
	start                       uint64 // with pid it identifies a process; 0: unknown
	ended                       bool   // a zombie
}

// scope says which processes belong to a command: the descendants of root.
type scope struct {
	root  int
	group int // where orphans leave the tree: the members of this group, too
	// If sparing, processes that left this session, and whose parents have
	// ended, do not belong to the command. A session has the number 0 if the
	// process that began it is outside a container (pid_namespaces(7)).
	sparing bool
	session int
	except  map[int]uint64 // children of root that do not belong, by their start
	since   uint64         // nor do children that started before
}

// spare leaves out the daemons: those that left this process's session.
func (s scope) spare() scope {
	s.sparing = true
	s.session, _ = unix.Getsid(0) // cannot fail
	return s
}

// kin returns the live processes of a scope, parents before their children.
func (s scope) kin(table []process) []process {
	children := map[int][]process{}
	var found, live []process
	for _, p := range table {
		child := p.parent == s.root && (!s.sparing || p.session == s.session)
		if start, known := s.except[p.pid]; known && start == p.start || p.start < s.since {
			child = false
		}
		switch {
		case p.pid == s.root:
		case child, !subreapers && p.group == s.group && p.pid != s.root:
			found = append(found, p)
		default:
			children[p.parent] = append(children[p.parent], p)
		}
	}
	delete(children, s.root) // those that do not belong
	for i := 0; i < len(found); i++ {
		p := found[i]
		if !p.ended {
			live = append(live, p)
		}
		found = append(found, children[p.pid]...)
		delete(children, p.pid)
	}
	return live
}

// detached returns the live processes that the session excludes.
func (s scope) detached(table []process) []process {
	belong := map[int]bool{}
	for _, p := range s.kin(table) {
		belong[p.pid] = true
	}
	s.sparing = false
	var others []process
	for _, p := range s.kin(table) {
		if !belong[p.pid] {
			others = append(others, p)
		}
	}
	return others
}

// signal sends a signal to each process of a scope, once, also to those that
// are born meanwhile. The error names a process that refused it.
func (s scope) signal(sig syscall.Signal) error {
	type id struct {
		pid   int
		start uint64
	}
	told := map[id]bool{}
	var refused error
	for again, walks := true, 0; again && walks < mostWalks; walks++ {
		again = false
		table, err := processes()
		if err != nil {
			return fmt.Errorf("%w: %w", errUnseen, err)
		}
		for _, p := range s.kin(table) {
			if told[id{p.pid, p.start}] {
				continue
			}
			told[id{p.pid, p.start}], again = true, true
			if err := p.signal(sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				refused = fmt.Errorf("process %d (%s): %w", p.pid, p.name, err)
			}
		}
	}
	return refused
}

// errUnseen says that the process table cannot be read.
var errUnseen = errors.New("processes cannot be listed")

// mostWalks bounds the walks for one signal. Only processes that fork without
// end need more than three; the guard goes on if the signal is SIGKILL.
const mostWalks = 20

// orphaned reports whether no shell can continue a group after a stop: the
// parent of each member is in the group, or in another session. The kernel does
// not stop such a group for the terminal.
func orphaned(group int, table []process) bool {
	byPID := make(map[int]process, len(table))
	for _, p := range table {
		byPID[p.pid] = p
	}
	for _, p := range table {
		parent, known := byPID[p.parent]
		if p.group == group && !p.ended && known && parent.group != group &&
			parent.session == p.session {
			return false
		}
	}
	return true
}
