package gooselock_test

import (
	"context"
	"database/sql"
	"io/fs"
	"log"

	"github.com/pressly/goose/v3"

	"github.com/baton-go/baton/contrib/gooselock"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

func up(ctx context.Context, client *coordinator.Client, db *sql.DB, files fs.FS) error {
	lock, err := mutex.New(client, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectClickHouse, db, files, goose.WithSessionLocker(gooselock.New(lock)))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

func Example() {
	var client *coordinator.Client // of coordinator.Open
	var db *sql.DB
	var files fs.FS
	if err := up(context.Background(), client, db, files); err != nil {
		log.Fatal(err)
	}
}
