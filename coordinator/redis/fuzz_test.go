package redis

import (
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
)

func FuzzOpenShowsNoSecret(f *testing.F) {
	coordinatortest.FuzzSecrets(f, coordinator.Open,
		"redis://user:PASSWORD@REST", "rediss://:PASSWORD@REST", "redis://h1/a?master=main&sentinel-password=PASSWORD")
}
