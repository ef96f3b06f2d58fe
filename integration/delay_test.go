package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// lockDelay is the lock-delay of all clients here.
const lockDelay = 5 * time.Second

// The other clients would acquire the lock during the delay.
func TestLockDelayIsRefusedOnForeignLayouts(t *testing.T) {
	for _, url := range []string{"etcd://127.0.0.1:1/?layout=concurrency", "zk://127.0.0.1:1/?layout=curator", "zk://127.0.0.1:1/?layout=kazoo"} {
		c, err := coordinator.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mutex.New(c, "/orders", mutex.WithLockDelay(lockDelay)); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
