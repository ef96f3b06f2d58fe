package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Server is a program that can be killed and restarted with the same arguments
// and data. All methods may be called concurrently; operations on one server
// are serialized.
type Server struct {
	name    string
	logPath string
	command func() *exec.Cmd
	ready   func(context.Context) error

	mu   sync.Mutex
	proc *Process
}

// NewServer describes a server without starting it. command makes the command
// for each start; its output is appended to the file logPath. After a start
// ready is polled until it returns nil; it must return soon.
func NewServer(name, logPath string, command func() *exec.Cmd, ready func(context.Context) error) *Server {
	return &Server{name: name, logPath: logPath, command: command, ready: ready}
}

// Name is the server's name in its cluster.
func (s *Server) Name() string { return s.name }

// Launch starts the process and does not wait until it serves: a member without
// a quorum never does. It fails if the server is running.
func (s *Server) Launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && s.proc.Running() {
		return fmt.Errorf("child: %s is running", s.name)
	}
	logFile, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("child: %s: %w", s.name, err)
	}
	defer logFile.Close() // the process has its own copy
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	proc, err := Start(cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.proc = proc
	return nil
}

// AwaitReady waits until the server serves. It fails, with the end of the log,
// if the process or ctx ends first.
func (s *Server) AwaitReady(ctx context.Context) error {
	proc := s.process()
	if proc == nil {
		return fmt.Errorf("%s: %w", s.name, ErrNotRunning)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		last := s.ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-proc.Done():
			return fmt.Errorf("child: %s ended (%w); its log ends with:\n%s", s.name, ended(proc), s.Log())
		case <-ctx.Done():
			return fmt.Errorf("child: %s is not ready: %w (last: %w); its log ends with:\n%s",
				s.name, context.Cause(ctx), last, s.Log())
		}
	}
}

// Restart kills the server if it runs, starts it with its data, and waits until
// it serves.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	if err := s.Launch(); err != nil {
		return err
	}
	return s.AwaitReady(ctx)
}

// Kill ends the server with SIGKILL and waits for its end. The data stays. It
// does nothing if the server does not run.
func (s *Server) Kill() {
	if proc := s.process(); proc != nil {
		proc.Kill()
	}
}

// Stop asks the server to end (SIGTERM), and kills it if it has not ended after
// d. It does nothing if the server does not run.
func (s *Server) Stop(d time.Duration) {
	proc := s.process()
	if proc == nil {
		return
	}
	_ = proc.Interrupt() // it may have ended
	select {
	case <-proc.Done():
	case <-time.After(d):
		proc.Kill()
	}
}

// Pause stops the server with SIGSTOP: its connections stay open, and it does
// not answer.
func (s *Server) Pause() error { return s.lever((*Process).Pause) }

// Resume continues a paused server.
func (s *Server) Resume() error { return s.lever((*Process).Resume) }

// Running reports whether the process exists, paused or not.
func (s *Server) Running() bool {
	proc := s.process()
	return proc != nil && proc.Running()
}

// PID returns the process ID of the current or last run, 0 before the first.
func (s *Server) PID() int {
	if proc := s.process(); proc != nil {
		return proc.PID()
	}
	return 0
}

// Log returns the end of the server's output over all its runs.
func (s *Server) Log() string { return Tail(s.logPath, 8<<10) }

func (s *Server) lever(pull func(*Process) error) error {
	proc := s.process()
	if proc == nil {
		return fmt.Errorf("%s: %w", s.name, ErrNotRunning)
	}
	if err := pull(proc); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

func (s *Server) process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func ended(p *Process) error {
	if err := p.Wait(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

// Tail returns the last limit bytes of a file, or an error message if it cannot
// be read.
func Tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		if _, err := f.Seek(-limit, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
