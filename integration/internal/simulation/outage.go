package simulation

import "time"

// LongOutage is the state in which connections are counted.
const LongOutage = "connections counted in a long outage"

// outage stops the service for a time, and counts the connections that clients
// begin. While a session can be saved they may be many. After that thousands of
// clients would keep the servers from coming back.
func (w *world) outage(lasts time.Duration) {
	w.svc.Stop()
	w.note(func() { w.stoppedAt = w.now() })
	defer w.svc.Start()
	hopeless := 2*w.ttl + 2*time.Second
	if w.traits.Dials == 0 || lasts < hopeless+w.ttl {
		time.Sleep(lasts)
		return
	}
	atFirst := w.dials()
	time.Sleep(w.ttl)
	soon := w.dials()
	time.Sleep(hopeless - w.ttl)
	before := w.dials()
	time.Sleep(lasts - hopeless)
	w.note(func() { w.reach(LongOutage) })
	most := w.traits.Dials * max(1, (lasts-hopeless).Seconds())
	for l, n := range w.dials() {
		// To a client that tries later, such as one that starts during the
		// outage, that has just begun.
		old, there := atFirst[l]
		knows := there && soon[l] > old
		if knows && float64(n-before[l]) > most {
			w.blame("a client began to connect %d times in the last %v of an outage of %v: more than %.0f times",
				n-before[l], lasts-hopeless, lasts, most)
		}
	}
}

// dials is how often each present client has begun to connect.
func (w *world) dials() map[Link]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[Link]int{}
	for _, s := range w.slots {
		all[s.link] = s.link.Dials()
	}
	return all
}
