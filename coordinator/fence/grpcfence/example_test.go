package grpcfence_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/grpcfence"
)

// Calls show the sequencer of their context. The server refuses the first
// holder of a lock after a call of the second.
func Example() {
	// the resource; here it is gRPC's health service
	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcfence.UnaryServer(gate.Check)), grpc.StreamInterceptor(grpcfence.StreamServer(gate.Check)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	// the holders
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcfence.UnaryClient), grpc.WithStreamInterceptor(grpcfence.StreamClient))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	call := func(token int64) {
		// in a program: lock.Sequencer(ctx)
		seq, err := fence.Parse(fmt.Sprintf("baton1:4f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5:mutex/orders:%d:key", token))
		if err != nil {
			log.Fatal(err)
		}
		_, err = healthpb.NewHealthClient(conn).Check(fence.With(context.Background(), seq), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	call(5)
	call(7)
	call(5)
	// Output:
	// OK
	// OK
	// FailedPrecondition
}
