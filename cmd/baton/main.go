// Command baton takes locks, permits and leaderships of Baton from the command
// queue, and shows who has them.
//
//	baton lock nightly-report -- ./report.sh
//	baton inspect nightly-report
//
// The service is named by --url or BATON_URL, in the form that
// [coordinator.Open] takes. `baton help` lists the commands, and docs/cli.md
// shows all of it.
//
// [coordinator.Open]: https://pkg.go.dev/github.com/baton-go/baton/coordinator#Open
package main

import (
	"context"
	"os"

	"github.com/baton-go/baton/cmd/baton/internal/cli"
	"github.com/baton-go/baton/cmd/baton/internal/ward"

	// The services that a URL can name.
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
)

func main() {
	ward.Main() // does not return if this process is to watch over a command
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ,
	}))
}
