package freeport

import (
	"net"
	"slices"
	"testing"
)

func TestTakeGivesDifferentPortsThatCanBeBound(t *testing.T) {
	ports, err := Take(50)
	if err != nil {
		t.Fatal(err)
	}
	defer Release(ports...)
	slices.Sort(ports)
	if got := len(slices.Compact(slices.Clone(ports))); got != 50 {
		t.Fatalf("%d different ports of 50", got)
	}
	for _, port := range ports {
		ln, err := net.Listen("tcp", Addr(port))
		if err != nil {
			t.Fatalf("port %d: %v", port, err)
		}
		if Port(ln.Addr().String()) != port {
			t.Errorf("Port(%v) = %d, want %d", ln.Addr(), Port(ln.Addr().String()), port)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestReservedPortIsNotTakenAgainUntilReleased(t *testing.T) {
	ports, err := Take(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first := reserve(dir, ports[0])
	if first == nil {
		t.Fatal("a port that nothing listens on could not be reserved")
	}
	if reserve(dir, ports[0]) != nil {
		t.Fatal("one port was reserved twice")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := reserve(dir, ports[0])
	if again == nil {
		t.Fatal("a released port could not be reserved again")
	}
	_ = again.Close()
	Release(ports...)
	Release(ports...) // twice is harmless
}
