package virtualzk

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// Request is a request on its way to a member, for OnRequest.
type Request struct {
	Link    *Link
	Op      string   // such as "multi"; "connect" is the first of a connection
	Paths   []string // of its operations
	Session int64    // of its connection, or 0
}

// Fate is what happens to one request. The zero Fate is nothing. On a
// connection the next requests and replies wait for a delayed one.
type Fate struct {
	DelayRequest, DelayReply time.Duration
	// DropRequest breaks the connection before the request arrives, DropReply
	// after it was applied.
	DropRequest, DropReply bool
	// Code is the member's reply, an error code. Nothing is applied.
	Code int32
}

// OnRequest calls decide for each request but pings, without a lock. Nil ends
// it.
func (e *Ensemble) OnRequest(decide func(Request) Fate) { e.locked(func() { e.decide = decide }) }

// write is what the client has written at once: messages in order.
type write struct {
	messages [][]byte
	key      string
}

// window is the time for which a client's writes are collected.
const window = time.Microsecond

// sent takes what the client has written. With a generator, writes within a
// microsecond on one connection are put in an order of their content, before
// they are sent. They come from as many goroutines, whose order the scheduler
// would decide: the client library has one goroutine waiting for each request.
func (w *wire) sent(messages [][]byte) {
	if w.ups.rand == nil {
		for _, m := range messages {
			w.dispatch(m, w.decide)
		}
		return
	}
	w.batch = append(w.batch, write{messages: messages})
	if !w.flushing {
		w.flushing = true
		time.AfterFunc(window-time.Since(w.began)%window+w.offset, w.flush)
	}
}

func (w *wire) flush() {
	w.mu.Lock()
	batch := w.batch
	w.batch, w.flushing = nil, false
	decide := w.decide
	w.mu.Unlock()
	for i := range batch {
		batch[i].key = w.sortKey(batch[i].messages[0])
	}
	slices.SortStableFunc(batch, func(a, b write) int { return cmp.Compare(a.key, b.key) })
	var fate Fate
	for i, b := range batch {
		for j, m := range b.messages {
			// Which goroutine has sent which of two same requests is by chance.
			if same := i > 0 && j == 0 && b.key != "" && b.key == batch[i-1].key; !same {
				fate = fateOf(w, m, decide)
			}
			w.locked(func() { w.carryUp(m, fate) })
		}
	}
}

// dispatch is flush for one message, with the lock held.
func (w *wire) dispatch(message []byte, decide func(Request) Fate) {
	if decide == nil {
		w.carryUp(message, Fate{})
		return
	}
	w.mu.Unlock()
	fate := fateOf(w, message, decide)
	w.mu.Lock()
	w.carryUp(message, fate)
}

// fateOf asks for the fate of a request.
func fateOf(w *wire, message []byte, decide func(Request) Fate) Fate {
	if decide == nil {
		return Fate{}
	}
	var r Request
	w.locked(func() { r = w.describe(message) })
	if r.Op == opNames[opPing] {
		return Fate{}
	}
	return decide(r)
}

// describe parses a request. The first of a connection is the only one whose
// second field, the first half of a zxid, is not an operation.
func (w *wire) describe(message []byte) Request {
	r := Request{Link: w.Link, Op: "connect"}
	if w.server != nil {
		r.Session = w.server.session
	}
	if isConnect(message) {
		return r
	}
	d := &decoder{b: message}
	d.int32()
	op := d.int32()
	r.Op = opNames[op]
	switch op {
	case opMulti:
		for {
			op, done, _ := d.int32(), d.bool(), d.int32()
			if done || d.bad {
				return r
			}
			r.Paths = append(r.Paths, d.text())
			switch op {
			case opCreate, opCreate2, opCreateContainer:
				d.bytes()
				d.acls()
			case opSetData:
				d.bytes()
			}
			d.int32()
		}
	case opPing, opAuth, opSetWatches, opSetWatches2, opCloseSession:
	default:
		r.Paths = []string{d.text()}
	}
	return r
}

// isConnect reports whether a message is a connect request: protocol version 0,
// a zxid, and then nothing that a request with a positive number has.
func isConnect(message []byte) bool {
	return len(message) >= 28 && binary.BigEndian.Uint32(message) == 0
}

// sortKey is the content of a request without its number, and without what is
// random in each run.
func (w *wire) sortKey(message []byte) string {
	if isConnect(message) {
		return ""
	}
	r := w.describe(message)
	key := r.Op
	for _, path := range r.Paths {
		if w.conf.Key != nil {
			path = w.conf.Key(path)
		}
		key += " " + path
	}
	return key
}

// carryUp sends a request to the member.
func (w *wire) carryUp(message []byte, fate Fate) {
	if fate.DropRequest {
		w.carry(&w.up, &w.ups, w, fate.DelayRequest, w.breakOff)
		return
	}
	w.carry(&w.up, &w.ups, w, fate.DelayRequest, func() {
		if w.server == nil {
			return
		}
		xid := int32(binary.BigEndian.Uint32(message))
		if fate != (Fate{}) {
			w.fates[xid] = fate
		}
		if fate.Code != 0 && w.server.session != 0 {
			w.server.answerWith(xid, fate.Code)
			return
		}
		w.server.receive(message)
	})
}
