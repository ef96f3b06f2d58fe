package sqlserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// nobody is the user that servers run as if we are root; ok is false if we are
// not.
func nobody() (uid, gid int, ok bool, err error) {
	if os.Getuid() != 0 {
		return 0, 0, false, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return 0, 0, false, fmt.Errorf("databases do not run as root, and there is nobody else: %w", err)
	}
	uid, _ = strconv.Atoi(u.Uid) // numbers on every unix
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid, true, nil
}

// give gives a directory to the user that servers run as.
func give(dir string) error {
	uid, gid, root, err := nobody()
	if err != nil || !root {
		return err
	}
	return os.Chown(dir, uid, gid)
}

func demote(cmd *exec.Cmd) {
	if uid, gid, root, err := nobody(); err == nil && root { // give has told of an error
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}
