package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// emptied is a service whose records an operator has emptied. Baton writes no
// empty record.
type emptied struct{ *memory.Driver }

func (d emptied) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return emptiedSession{coordinatortest.WithCapabilities(s)}, nil
}

type emptiedSession struct{ coordinatortest.Full }

func (s emptiedSession) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	r, err := s.Full.Record(ctx, queue, known)
	if r.Version != 0 {
		r.Value = nil
	}
	return r, err
}

// TestEmptyIdentityOfTheServiceIsRefused, and does not make the call try for
// ever, without a pause, to write the identity that is missing.
func TestEmptyIdentityOfTheServiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := coordinator.New(emptied{memory.NewService().Driver()})
		check(t, err)
		defer c.Close(context.Background())
		s, err := engine.Of(c).Session(t.Context())
		check(t, err)
		if _, err = s.SetRecord(t.Context(), engine.Services, []byte("id"), 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if id, err := s.Service(ctx); id != "" || !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("identity %q, error %v; want %v", id, err, coordinator.ErrRefused)
		}
	})
}
