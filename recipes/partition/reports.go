package partition

import "sync"

// mostReports bounds the errors that wait for the function of WithOnError. More
// of them are only logged.
const mostReports = 100

// reports calls the function of WithOnError for one Run, one call at a time. It
// has a goroutine of its own: a member that waited for the function would keep
// shards that move, and others would wait for them as long.
type reports struct {
	errs chan error
	done chan struct{} // closed when the function has returned for the last time

	mu   sync.Mutex
	over bool
}

func (p *Partition) startReports() *reports {
	r := &reports{errs: make(chan error, mostReports), done: make(chan struct{})}
	go r.run(p) // end waits for it
	return r
}

// run calls the function. That may end its goroutine by runtime.Goexit, as a
// failed test does: another run then goes on.
func (r *reports) run(p *Partition) {
	over := false
	defer func() {
		if over {
			close(r.done)
		} else {
			go r.run(p)
		}
	}()
	for err := range r.errs {
		p.call(err)
	}
	over = true
}

// call calls the function, for all Runs one after the other.
func (p *Partition) call(err error) {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	p.onError(err)
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over { // work that has overrun
		return
	}
	select {
	case r.errs <- err:
	default:
	}
}

// end waits until the function has been called with all errors.
func (r *reports) end() {
	r.mu.Lock()
	r.over = true
	close(r.errs)
	r.mu.Unlock()
	<-r.done
}
