package netproxy

import "slices"

// Message is a request or a reply that a sniffer recognised in a connection's
// bytes.
type Message struct {
	// ID ties replies to requests of the same connection.
	ID int64
	// Name is the request's operation, as the protocol names it. Replies need
	// none.
	Name string
	// Reply is true for the reply to the request with the same ID.
	Reply bool
}

// Sniffer recognises the messages of one connection. Sniff gets each
// direction's bytes as they arrive at the proxy, in order and in any portions,
// and returns the messages that end in this portion. It is called by one
// goroutine at a time and must not keep or change b.
type Sniffer interface {
	Sniff(way Direction, b []byte) []Message
}

// rawSniffer knows no protocol: any bytes up are a request, and any bytes down
// answer all open requests.
type rawSniffer struct{ sent, answered int64 }

func (r *rawSniffer) Sniff(way Direction, _ []byte) []Message {
	if way == Up {
		r.sent++
		return []Message{{ID: r.sent}}
	}
	var replies []Message
	for r.answered < r.sent {
		r.answered++
		replies = append(replies, Message{ID: r.answered, Reply: true})
	}
	return replies
}

// Match selects requests by name.
type Match func(name string) bool

// Any matches every request.
func Any(string) bool { return true }

// Named matches requests with one of the names.
func Named(names ...string) Match {
	return func(name string) bool { return slices.Contains(names, name) }
}
