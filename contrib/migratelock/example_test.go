package migratelock_test

import (
	"context"
	"embed"
	"log"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/baton-go/baton/contrib/migratelock"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

var files embed.FS

func up(ctx context.Context, client *coordinator.Client, driver database.Driver) error {
	lock, err := mutex.New(client, "migrations")
	if err != nil {
		return err
	}
	source, err := iofs.New(files, "migrations")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "orders", migratelock.Wrap(ctx, lock, driver, 10*time.Minute))
	if err != nil {
		return err
	}
	defer m.Close()
	m.LockTimeout = 11 * time.Minute // longer than Wrap's
	return m.Up()
}

func Example() {
	var client *coordinator.Client // of coordinator.Open
	var driver database.Driver     // for example of clickhouse.WithInstance
	if err := up(context.Background(), client, driver); err != nil {
		log.Fatal(err)
	}
}
