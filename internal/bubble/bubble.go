// Package bubble is for tests in bubbles of testing/synctest. A bubble lasts
// until all its goroutines have ended, and a package of tests ends with the
// panic of one that cannot.
package bubble

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// EndIfFailed closes a client on a driver after a test that has failed: after
// t.Fatal no other line does, and what the client runs would be left in the
// bubble. On the service in memory, what the test holds up goes on before that.
func EndIfFailed(t testing.TB, d driver.Driver, c *coordinator.Client) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if link, ok := d.(*memory.Driver); ok {
			link.Service().OnRequest(nil)
			link.Service().Start()
			link.Heal()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.Close(ctx)             // the test has failed
		time.Sleep(10 * time.Minute) // for goroutines of the test that end by then
	})
}
