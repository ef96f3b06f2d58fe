// Serve starts a real etcd on loopback for trying Baton.
//
//	make serve               on a free port
//	make serve PORT=2379     on this port
//
// It prints the variable to export, and ends on Ctrl-C, which deletes its data.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/baton-go/baton/integration/internal/etcdserver"
)

func main() {
	port := flag.Int("port", 0, "port on 127.0.0.1; 0: any free port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := serve(ctx, *port); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, port int) error {
	if port < 0 || port > 65535 {
		return fmt.Errorf("port %d: want 0 to 65535", port)
	}
	server, err := etcdserver.StartEmbedded(ctx, port)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Printf("export BATON_URL=etcd://%s\n", server.Endpoints()[0])
	fmt.Fprintln(os.Stderr, "etcd runs until Ctrl-C; in another terminal, after the export:   go run -C cmd/baton . lock demo -- sleep 60")
	<-ctx.Done()
	return nil
}
