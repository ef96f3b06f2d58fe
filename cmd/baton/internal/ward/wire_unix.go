//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// order tells the guard what to start.
type order struct {
	path       string
	args, env  []string
	job        bool // the command leads a group of its own
	foreground bool // its group gets the terminal
	guarded    bool // it is killed with the starter, and at the deadline
}

// send writes the order: its length, and its strings, which have no NUL since
// the system could not pass them on either.
func (o order) send(to io.Writer) error {
	strs := append(append([]string{
		fmt.Sprint(o.job), fmt.Sprint(o.foreground), fmt.Sprint(o.guarded), o.path,
		strconv.Itoa(len(o.args)),
	}, o.args...), o.env...)
	for _, s := range strs {
		if strings.IndexByte(s, 0) >= 0 {
			return &os.PathError{Op: "exec", Path: o.path, Err: syscall.EINVAL}
		}
	}
	text := strings.Join(strs, "\x00")
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// receiveOrder is the reverse.
func receiveOrder(from io.Reader) (o order, err error) {
	var size uint32
	if err := binary.Read(from, binary.BigEndian, &size); err != nil {
		return o, err
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return o, err
	}
	const fixed = 5
	strs := strings.Split(string(text), "\x00")
	if len(strs) < fixed {
		return o, errors.New("the order is too short")
	}
	n, err := strconv.Atoi(strs[4])
	if err != nil || n < 0 || fixed+n > len(strs) {
		return o, errors.New("the order is malformed")
	}
	return order{
		job: strs[0] == "true", foreground: strs[1] == "true", guarded: strs[2] == "true", path: strs[3],
		args: strs[fixed : fixed+n], env: strs[fixed+n:],
	}, nil
}

// note is a message of a fixed size, in either direction.
type note struct {
	kind  byte
	value int64
}

// The kinds of notes, and their values.
const (
	// To the guard.
	noteDeadline = 'd' // nanoseconds after the epoch
	noteSpare    = 's' // processes in sessions of their own may live on

	// To the starter.
	noteHello   = 'h' // the epoch begins
	noteStarted = 'p' // the command's process
	noteBirth   = 't' // its start time; follows noteStarted
	noteFailed  = 'f' // the error number of the start; 0: the deadline had passed
	noteStopped = 'z' // the signal that stopped the command
	noteEnded   = 'x' // the wait status of the command
	noteEmpty   = 'e' // no child is left
)

const noteSize = 9

func (n note) encode() []byte {
	return binary.BigEndian.AppendUint64([]byte{n.kind}, uint64(n.value))
}

func receiveNote(from io.Reader) (note, error) {
	b := make([]byte, noteSize)
	_, err := io.ReadFull(from, b)
	return note{b[0], int64(binary.BigEndian.Uint64(b[1:]))}, err
}

// sendNote bounds the time for which a full pipe can block.
func sendNote(to *os.File, n note) error {
	_ = to.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := to.Write(n.encode())
	return err
}
