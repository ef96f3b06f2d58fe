// Batonvet finds wrong uses of Baton in Go programs: holds that are not
// released, work that uses the context from outside of its hold, tokens that
// nobody checks, and clients opened for each call.
//
//	go install github.com/baton-go/baton/cmd/batonvet
//	go vet -vettool="$(which batonvet)" ./...
//
// Each check has a flag: with -batonrelease only that one runs, with
// -batonrelease=false all others do. "batonvet help NAME" describes a check.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/baton-go/baton/cmd/batonvet/internal/check"
)

func main() { multichecker.Main(check.All()...) }
