package grpcfence_test

import (
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/grpcfence"
)

// Calls show the sequencer of their context, and the server refuses stale ones.
// The example has no output: it has no service to call.
func Example() {
	// the holder
	conn, err := grpc.NewClient("orders:8443", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcfence.UnaryClient), grpc.WithStreamInterceptor(grpcfence.StreamClient))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	// the resource
	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcfence.UnaryServer(gate.Check)), grpc.StreamInterceptor(grpcfence.StreamServer(gate.Check)))
	defer server.Stop()
}
