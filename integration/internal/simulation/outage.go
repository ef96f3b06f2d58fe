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
	time.Sleep(hopeless)
	before := w.dials()
	time.Sleep(lasts - hopeless)
	w.note(func() { w.reach(LongOutage) })
	most := w.traits.Dials * max(1, (lasts-hopeless).Seconds())
	for l, n := range w.dials() {
		if old, there := before[l]; there && float64(n-old) > most {
			w.blame("a client began to connect %d times in the last %v of an outage of %v: more than %.0f times",
				n-old, lasts-hopeless, lasts, most)
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
