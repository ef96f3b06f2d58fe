package bench

import (
	"context"
	"math/rand/v2"
	"time"
)

// readerClients is the number of clients that read in the form readers. The
// next one writes.
const readerClients = 4

// The mean times of the form readers.
const (
	readFor    = time.Millisecond
	writeAfter = 20 * time.Millisecond
)

// readers lets all contenders read one name for about 1 ms, with pauses as
// long, while one more writes for about 1 ms every 20 ms. The result counts
// reads, but its times are the waits of the writer: how long a reader waits
// shows in the reads per second.
func (c contention) readers(ctx context.Context, p *play) (times, error) {
	last, err := c.contender(readerClients, p.name)
	if err != nil {
		return times{}, err
	}
	writer := last.(*readWriter)
	over := make(chan struct{})
	var waits []time.Duration
	wrote := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(roughly(writeAfter)):
			case <-over:
				if len(waits) > 0 {
					wrote <- nil
					return
				}
			}
			began := time.Now()
			if err := writer.write.acquire(ctx); err != nil {
				wrote <- err
				return
			}
			waits = append(waits, time.Since(began))
			time.Sleep(roughly(readFor))
			if err := writer.write.release(ctx); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- context.Cause(ctx)
	}()
	result, err := c.shared(ctx, p, func(i, _, _ int) (contender, error) {
		// Those of one client are not neighbours: the fifth client only writes.
		one, err := c.contender(i/readerClients*(readerClients+1)+i%readerClients, p.name)
		return slowly{one}, err
	})
	close(over)
	if failed := <-wrote; err == nil {
		err = failed
	}
	result.each = waits
	return result, err
}

// roughly draws a time between half and one and a half of a mean.
func roughly(mean time.Duration) time.Duration {
	return mean/2 + rand.N(mean)
}

// slowly is a contender that works for a while, and pauses.
type slowly struct{ contender }

func (s slowly) acquire(ctx context.Context) error {
	err := s.contender.acquire(ctx)
	if err == nil {
		time.Sleep(roughly(readFor))
	}
	return err
}

func (s slowly) release(ctx context.Context) error {
	defer time.Sleep(roughly(readFor))
	return s.contender.release(ctx)
}
