// Reproduce shows that faults which Baton had are faults, and are gone: for
// each row of the track record it runs the test of the fault on the code
// before the commit that mends it, where the test must fail, and on the code of
// today, where it must pass.
//
//	go run ./cmd/reproduce                     # all rows; exits with 1 unless each is reproduced
//	go run ./cmd/reproduce -name dead-waiter   # one row
//	go run ./cmd/reproduce -list               # names the rows, and runs nothing
//	go run ./cmd/reproduce -markdown           # prints docs/track-record.md, and runs nothing
//
// The old code is the parent of the mending commit, from git archive. Over it
// go the test files that the mending commit added or changed in the package. A
// test that does not compile there, or runs until its time limit, shows
// nothing, and is an error. No test here needs a server.
//
// To add a row, mend a fault with its test in one commit, and add the commit to
// faults.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	name := flag.String("name", "", "reproduce the row with this `name` only")
	list := flag.Bool("list", false, "list the rows and run nothing")
	markdown := flag.Bool("markdown", false, "print the page of the documentation and run nothing")
	root := flag.String("C", "..", "the root of the project")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chosen, err := choose(*name)
	switch {
	case err != nil:
	case *markdown:
		fmt.Print(page(faults))
	case *list:
		for _, f := range chosen {
			fmt.Printf("%-28s %s  %s %s\n", f.name, f.mend, f.pkg, f.test)
		}
	default:
		err = run(ctx, *root, chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reproduce:", err)
		os.Exit(1)
	}
}

// run reproduces the faults and prints a line for each.
func run(ctx context.Context, root string, chosen []fault) error {
	r, err := newRunner(ctx, root)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.hasHistory(ctx, chosen); err != nil {
		return err
	}
	failed := 0
	for _, f := range chosen {
		if err := r.reproduce(ctx, f); err != nil {
			failed++
			fmt.Printf("ERROR  %-28s %v\n", f.name, err)
			continue
		}
		fmt.Printf("ok     %-28s %s fails before %s, and passes now\n", f.name, f.test, f.mend)
	}
	fmt.Printf("%d of %d reproduced\n", len(chosen)-failed, len(chosen))
	if failed > 0 {
		return fmt.Errorf("%d not reproduced", failed)
	}
	return nil
}

func choose(name string) (chosen []fault, err error) {
	for _, f := range faults {
		if name == "" || f.name == name {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no row has the name %q; -list names them", name)
	}
	return chosen, nil
}
