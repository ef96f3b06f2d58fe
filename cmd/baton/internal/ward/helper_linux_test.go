package ward

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Environment variables that make the test's program do something else.
const (
	firstProcess = "WARD_TEST_FIRST_PROCESS" // as process 1: reap an orphan, or raise a signal
	endThread    = "WARD_TEST_END_THREAD"    // end the first thread
	foreground   = "WARD_TEST_FOREGROUND"    // run this program on a terminal
)

func init() {
	program, set := os.LookupEnv(foreground)
	switch {
	case set && program == tostop:
		runToStop()
	case set:
		runForeground(program)
	case os.Getenv(firstProcess) == "raises":
		Raise(syscall.SIGTERM, false)
		os.Exit(128 + int(syscall.SIGTERM))
	case os.Getenv(firstProcess) == "reaps":
		reapCommand()
	case os.Getenv(firstProcess) != "":
		reapOrphan()
	case os.Getenv(endThread) != "":
		go func() { time.Sleep(time.Hour) }()
		runtime.LockOSThread() // to the first thread, in init
		syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// reapCommand reads the status of a command as Reap does, before waitHere
// waits for it, and exits with its code.
func reapCommand() {
	command := exec.Command("sh", "-c", "exit 3")
	if err := command.Start(); err != nil {
		panic(err)
	}
	p, _ := readProcess(command.Process.Pid) // not waited for yet, so it exists
	w := &Ward{command: p, claimed: claim(p.pid)}
	for !reap() {
		time.Sleep(pollEvery)
	}
	os.Exit(w.waitHere().ExitStatus())
}

// reapOrphan leaves an orphan and waits until it has been waited for.
func reapOrphan() {
	stop := Reap()
	out, err := exec.Command("sh", "-c", "sleep 0.1 >/dev/null & echo $!").Output()
	var pid int
	if _, scan := fmt.Sscan(string(out), &pid); scan != nil {
		fmt.Println(string(out), err, scan)
		os.Exit(1)
	}
	for {
		if _, err := readProcess(pid); err != nil {
			break
		}
		time.Sleep(pollEvery)
	}
	stop()
	fmt.Println("reaped")
	os.Exit(0)
}
