package etcd

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// standing is the watch of a follower, which may stand for longer than one wait.
//
// Contenders that come again and again tend to stand in the same order: who was let in by its neighbour comes again behind the same
// neighbour. Names are used again, so that is the same key, and the watch of the last wait shows what the next one
// waits for. Such a wait needs neither a watch nor a look, which would be half of its messages: the entry ahead was made after
// the watch stood, so whatever becomes of it is told, and nothing else that a look would show was missed.
//
// So the watch of a wait that was ended by the one ahead stays for a moment. Meanwhile a goroutine hears what it tells, for the next
// wait; if that is more than one neighbour's coming and going, others come between, and it ends.
type standing struct {
	*opening
	watched watched
	stream  metadata.MD
	ended   <-chan struct{} // closed when the watch is, or the session
	events  clientv3.WatchChan

	since   int64             // it shows what happened after this revision to entries that were made then or later
	earlier bool              // it was opened by an earlier wait
	heard   []*clientv3.Event // which no wait has used, or only the last one

	wanted, rested chan struct{} // closed by the next wait, and when nobody hears what it tells any more
}

// watched is a range of keys between two, both included.
type watched struct {
	first, last string
	leaving     bool // puts are not sent
}

func (w watched) opts() []clientv3.OpOption {
	opts := append(make([]clientv3.OpOption, 0, 3), clientv3.WithRange(w.last+"\x00"), clientv3.WithCreatedNotify())
	if w.leaving {
		opts = append(opts, clientv3.WithFilterPut())
	}
	return opts
}

const (
	// lingers is how long a watch stays that nobody waits with. Who holds for longer, or stays away for longer, does not notice the request for a new one.
	lingers = 250 * time.Millisecond
	// mostHeard are the events of a neighbour's leaving and coming again, and its mark's, and a few.
	mostHeard = 8
)

// standings has the watches that nobody waits with, by the contender's prefix.
type standings struct {
	mu sync.Mutex
	m  map[string]*standing
}

// take returns the watch that the contender's last wait has left, if it is of the same keys and shows all that becomes of entries that were made
// at a revision or later.
func (st *standings) take(contender string, of watched, made int64) *standing {
	w := st.remove(contender, nil)
	if w == nil {
		return nil
	}
	w.wake()
	if w.watched != of || made < w.since || w.events == nil {
		w.close()
		return nil
	}
	w.earlier = true
	return w
}

// wake ends the rest of a watch that was taken away.
func (w *standing) wake() {
	close(w.wanted)
	<-w.rested
}

// leave leaves a watch for the contender's next wait.
func (st *standings) leave(contender string, w *standing) {
	w.wanted, w.rested = make(chan struct{}), make(chan struct{})
	st.mu.Lock()
	other := st.m[contender]
	st.m[contender] = w
	st.mu.Unlock()
	go st.rest(contender, w) // for as long as the watch lingers
	if other != nil {        // there were two waits at once
		other.wake()
		other.close()
	}
}

// remove takes a contender's watch away, or only this one.
func (st *standings) remove(contender string, only *standing) *standing {
	st.mu.Lock()
	defer st.mu.Unlock()
	w := st.m[contender]
	if w == nil || only != nil && w != only {
		return nil
	}
	delete(st.m, contender)
	return w
}

// rest hears what the watch tells until it is wanted, and ends it if it is not.
func (st *standings) rest(contender string, w *standing) {
	defer close(w.rested)
	timer := time.NewTimer(lingers)
	defer timer.Stop()
	for {
		select {
		case <-w.wanted:
			return
		case resp, ok := <-w.events:
			w.heard = append(w.heard, resp.Events...)
			if !ok || resp.Err() != nil {
				w.events = nil
			} else if len(w.heard) <= mostHeard {
				continue
			}
		case <-timer.C:
		case <-w.ended:
		}
		if st.remove(contender, w) != nil {
			w.close()
		}
		return
	}
}
