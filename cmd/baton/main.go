// Command baton acquires Baton's locks, permits and leaderships from the
// command line, and shows who holds them.
//
//	baton lock nightly-report -- ./report.sh
//	baton inspect nightly-report
//
// --url or BATON_URL names the service, in the form that [coordinator.Open]
// takes. `baton help` lists the commands; docs/cli.md documents them.
//
// [coordinator.Open]: https://pkg.go.dev/github.com/baton-go/baton/coordinator#Open
package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9/logging"

	"github.com/baton-go/baton/cmd/baton/internal/cli"
	"github.com/baton-go/baton/cmd/baton/internal/ward"

	// The services that a URL can name.
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/redis"
	_ "github.com/baton-go/baton/coordinator/sql"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
)

func main() {
	ward.Main()       // does not return in a guard process
	logging.Disable() // else go-redis writes to the standard error
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ,
	}))
}
