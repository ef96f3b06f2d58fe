package sql

import (
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
)

func FuzzOpenShowsNoSecret(f *testing.F) {
	coordinatortest.FuzzSecrets(f, coordinator.Open,
		"postgres://user:PASSWORD@REST", "postgres://h1/a?password=PASSWORD",
		"postgres://h1/a?sslpassword=PASSWORD", "mysql://user:PASSWORD@REST", "mysql://h1/a?password=PASSWORD")
}
