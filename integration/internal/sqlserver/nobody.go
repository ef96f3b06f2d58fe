package sqlserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// nobody returns the user as which servers run if we are root; ok is false if
// we are not.
func nobody() (uid, gid int, ok bool, err error) {
	if os.Getuid() != 0 {
		return 0, 0, false, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return 0, 0, false, fmt.Errorf("databases do not run as root, and there is no user nobody: %w", err)
	}
	uid, _ = strconv.Atoi(u.Uid) // numeric on every Unix
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid, true, nil
}

// chown gives a directory to the user as which servers run.
func chown(dir string) error {
	uid, gid, root, err := nobody()
	if err != nil || !root {
		return err
	}
	return os.Chown(dir, uid, gid)
}

func demote(cmd *exec.Cmd) {
	if uid, gid, root, err := nobody(); err == nil && root { // chown has reported errors
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}
