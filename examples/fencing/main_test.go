package main

import (
	"bytes"
	"log"
	"strings"
	"testing"

	"github.com/baton-go/baton/examples/internal/demo"
)

// TestLateWriteIsRefused runs in real time: there is an HTTP server.
func TestLateWriteIsRefused(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), log.New(&out, "", 0), demo.InMemory); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	rest := out.String()
	for _, line := range []string{
		"first has the lock, with token",
		"first ... is paused",
		"second has the lock, with token",
		"first ... continues",
		"the ledger refuses it: fence: stale token: token", ", after token",
		"first checks its lock: ",
	} {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("no %q in this order in\n%s", line, &out)
		}
		rest = after
	}
}
