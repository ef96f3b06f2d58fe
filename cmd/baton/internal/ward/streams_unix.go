//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"io"
	"os"
	"sync"
)

// streams are the command's standard streams as files. A stream that is no
// file is copied through a pipe.
type streams struct {
	files  [3]*os.File
	close  []*os.File // this process's copies of the command's ends
	copies []func()
	output sync.WaitGroup
}

func openStreams(in io.Reader, out, errs io.Writer) (*streams, error) {
	s := &streams{}
	err := s.input(in)
	if err == nil {
		s.files[1], err = s.write(out)
	}
	if err == nil && errs == out {
		s.files[2] = s.files[1] // one pipe keeps the order
	} else if err == nil {
		s.files[2], err = s.write(errs)
	}
	if err != nil {
		s.started()
		return nil, err
	}
	return s, nil
}

func (s *streams) null(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err == nil {
		s.close = append(s.close, f)
	}
	return f, err
}

func (s *streams) input(in io.Reader) (err error) {
	if f, ok := in.(*os.File); ok && f != nil {
		s.files[0] = f
		return nil
	}
	if in == nil {
		s.files[0], err = s.null(os.O_RDONLY)
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files[0], s.close = read, append(s.close, read)
	s.copies = append(s.copies, func() {
		defer write.Close()
		_, _ = io.Copy(write, in) // the command may end before it has read all
	})
	return nil
}

func (s *streams) write(out io.Writer) (*os.File, error) {
	if f, ok := out.(*os.File); ok && f != nil {
		return f, nil
	}
	if out == nil {
		return s.null(os.O_WRONLY)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, write)
	s.output.Add(1)
	s.copies = append(s.copies, func() {
		defer s.output.Done()
		defer read.Close()
		_, _ = io.Copy(out, read) // a writer that fails loses the rest
	})
	return write, nil
}

// started closes the command's ends and begins to copy. The input's copy can
// outlive the command, as its reader can block.
func (s *streams) started() {
	for _, f := range s.close {
		_ = f.Close()
	}
	for _, c := range s.copies {
		go c()
	}
}

// wait waits until the command's output was copied.
func (s *streams) wait() { s.output.Wait() }
