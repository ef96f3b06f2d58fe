package cli

import (
	"io"
	"sync"
	"time"
)

// messages writes to a stream in the background. A reader of the standard error
// may stop reading, and then a write blocks for ever. Neither a signal to the
// command nor a renewal may wait for it, so Write does not block: what the
// queue cannot hold is lost.
type messages struct {
	queue chan []byte
	done  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	closed bool
}

// queued is the number of messages that wait for a reader.
const queued = 256

func newMessages(to io.Writer) *messages {
	m := &messages{queue: make(chan []byte, queued), done: make(chan struct{})}
	go func() { // ends with close, or with the process if a write blocks
		defer close(m.done)
		for text := range m.queue {
			_, _ = to.Write(text) // nobody could be told
		}
	}()
	return m
}

func (m *messages) Write(text []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed { // a goroutine that logs after the end
		return len(text), nil
	}
	select {
	case m.queue <- append([]byte(nil), text...):
	default:
	}
	return len(text), nil
}

// close writes what is queued, if the reader takes it in time.
func (m *messages) close() {
	m.once.Do(func() {
		m.mu.Lock()
		m.closed = true
		close(m.queue)
		m.mu.Unlock()
		select {
		case <-m.done:
		case <-time.After(closing):
		}
	})
}
