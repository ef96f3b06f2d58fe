//go:build !linux

package netns

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/baton-go/baton/integration/internal/servers"
)

// Enter skips the test: network namespaces are Linux's.
func Enter(t *testing.T) bool {
	t.Helper()
	servers.CannotRun(t, errors.New("network namespaces are Linux's"))
	return false
}

// Network is never made.
type Network struct{}

// New is never called, since Enter does not return true.
func New(testing.TB, int) *Network { panic("netns: not on this system") }

func (*Network) Hosts() []string     { return nil }
func (*Network) Wrap(int, *exec.Cmd) {}
func (*Network) Others(int) []int    { return nil }
func (*Network) Mute(int)            {}
func (*Network) Unmute(int)          {}
func (*Network) Deafen(int)          {}
func (*Network) Undeafen(int)        {}
func (*Network) Isolate(int)         {}
func (*Network) Rejoin(int)          {}
func (*Network) Unplug(int)          {}
func (*Network) Plug(int)            {}
func (*Network) CanFilter()          {}
func (*Network) Swallow(...int)      {}
func (*Network) Hide(...int)         {}
func (*Network) Refuse(...int)       {}
func (*Network) Lose(int, ...int)    {}
func (*Network) Restore(...int)      {}

// Outside is never called either.
func Outside() *os.File               { return nil }
func (*Network) Block(from, to int)   {}
func (*Network) Unblock(from, to int) {}
