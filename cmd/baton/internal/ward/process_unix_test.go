//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"slices"
	"testing"
)

func pids(all []process) (found []int) {
	for _, p := range all {
		found = append(found, p.pid)
	}
	return found
}

func TestKinAreTheLiveDescendants(t *testing.T) {
	t.Run("session 3", func(t *testing.T) { testKin(t, 3) })
	t.Run("a session from outside the container", func(t *testing.T) { testKin(t, 0) })
}

func testKin(t *testing.T, session int) {
	const root = 10
	table := []process{ // not in the order of births
		{pid: 30, parent: 20, group: 30, session: session}, // a grandchild, of another group
		{pid: 1, session: 1}, //
		{pid: root, parent: 1, group: root, session: session},             //
		{pid: 20, parent: root, group: 20, session: session},              // the command
		{pid: 21, parent: root, group: 21, session: 21},                   // a daemon
		{pid: 31, parent: 21, group: 21, session: 21},                     // its child
		{pid: 32, parent: 20, group: 32, session: 32},                     // a session below the command
		{pid: 22, parent: root, group: 22, session: session, ended: true}, // a zombie
		{pid: 23, parent: root, group: 23, session: session, start: 7},    // not the command's
		{pid: 33, parent: 23, group: 23, session: session},                // its child
		{pid: 40, parent: 1, group: 40, session: 40},                      // a stranger
	}
	all := scope{root: root, except: map[int]uint64{23: 7}}
	if got := pids(all.kin(table)); !slices.Equal(got, []int{20, 21, 30, 32, 31}) {
		t.Errorf("all: %v; want the parents first", got)
	}
	all.except[23] = 6 // another process had the number
	if got := pids(all.kin(table)); len(got) != 7 {
		t.Errorf("without exception: %v", got)
	}
	delete(all.except, 23)
	if all.since = 8; len(all.kin(withStart(table, 9))) != 5 { // 23 is older than the guard
		t.Errorf("since the guard began: %v", pids(all.kin(withStart(table, 9))))
	}
	all.since, all.except[23], all.sparing, all.session = 0, 7, true, session
	if got := pids(all.kin(table)); !slices.Equal(got, []int{20, 30, 32}) {
		t.Errorf("without daemons: %v", got)
	}
	if got := pids(all.detached(table)); !slices.Equal(got, []int{21, 31}) {
		t.Errorf("the daemons: %v", got)
	}
}

// withStart returns a table whose other processes started later.
func withStart(table []process, start uint64) []process {
	table = slices.Clone(table)
	for i, p := range table {
		if p.start == 0 {
			table[i].start = start
		}
	}
	return table
}

func TestGroupIsOrphanedIfNoShellCanContinueIt(t *testing.T) {
	const shell, job, session = 5, 10, 5
	table := []process{
		{pid: 1, group: 1, session: 1},
		{pid: shell, parent: 1, group: shell, session: session},
		{pid: job, parent: 1, group: job, session: session},
		{pid: 11, parent: job, group: job, session: session},
	}
	if !orphaned(job, table) {
		t.Error("a group whose parent is in another session is not orphaned")
	}
	table[3].parent = shell
	if orphaned(job, table) {
		t.Error("a group with a member that a shell started is orphaned")
	}
	table[3].ended = true
	if !orphaned(job, table) {
		t.Error("a zombie keeps a group from being orphaned")
	}
}
