// Mutants breaks Baton's protocol, one rule at a time, and checks that the
// tests fail: a test that cannot fail shows nothing.
//
//	go run ./cmd/mutants                      # all; exits with 1 unless each is caught
//	go run ./cmd/mutants -list                # lists the mutations and the tests that catch them, and runs nothing
//	go run ./cmd/mutants -run 'deadline|etcd' # mutations with matching names
//	go run ./cmd/mutants -run herd -every     # all tests of the library that catch it
//	go run ./cmd/mutants -markdown            # prints docs/mutants.md, and runs nothing
//
// A mutation replaces a text that occurs once in a file. The file itself is not
// changed: the go command gets the changed content with -overlay. First all
// named tests must pass on the unchanged code. Then a mutation is
//
//	caught  if each of its named tests fails by its own verdict,
//	MISSED  if one of them does not,
//	HUNG    if one of them does not end in its time: two minutes, and ten times
//	        what it takes on the unchanged code.
//
// A test that hangs fails for nobody who runs it: it takes the time of all
// tests behind it, and says nothing of what is wrong. So that is no way to be
// caught: give the test a bound in virtual time. What runs on is killed, with
// all processes that it has started.
//
// The seconds beside a mutation are those of processors that its tests used.
//
// Most mutations change the body of a function. Their tests' packages are
// compiled once, with a copy of the function for each mutation; an environment
// variable selects the one that a run calls. The others are compiled one by
// one.
//
// No test that is named needs a server, and those of the drivers' and the
// engine's rules run in virtual time.
//
// The simulation is TestSimulationOnMemory with its usual 200 seeds. Where it
// is not named, it does not notice the mutation, or not with so few seeds: it
// has no real driver, stops no process between two instructions, has no wall
// clock that runs ahead, and counts no requests. Follow and Pass of the drivers
// implement the handoff; here its effects are broken in the recipes, and in the
// service in memory.
//
// To add a mutation, add it to one of the tables and run it. If no test catches
// it, a test is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"time"
)

func main() {
	run := flag.String("run", "", "run only mutations whose name matches this regular `expression`")
	list := flag.Bool("list", false, "list the mutations and run nothing")
	markdown := flag.Bool("markdown", false, "print the page of the documentation and run nothing")
	every := flag.Bool("every", false, "run all of the library's tests on each mutation and print those that fail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chosen, err := choose(*run)
	switch {
	case err != nil:
	case *markdown:
		fmt.Print(page(mutations))
	case *list:
		for _, m := range chosen {
			fmt.Printf("%-28s %s  %s: %s\n", m.name, m.promise, m.file, m.what)
			for _, t := range m.caught {
				fmt.Printf("%32s %s\n", "", t)
			}
		}
	default:
		err = check(ctx, chosen, *every)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

// choose returns the mutations whose name matches.
func choose(expr string) (chosen []mutation, err error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	for _, m := range mutations {
		if re.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutation matches %q", expr)
	}
	return chosen, nil
}

// atOnce is how many mutations run concurrently.
const atOnce = 2

// check runs mutations, and returns an error unless each is caught.
func check(ctx context.Context, chosen []mutation, every bool) error {
	r, err := newRunner(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	began := time.Now()
	if !every {
		if err := r.build(ctx, chosen); err != nil {
			return err
		}
		fmt.Printf("compiled (%.0fs)\n", time.Since(began).Seconds())
		if err := r.baseline(ctx, chosen); err != nil {
			return err
		}
		fmt.Printf("unchanged code: all named tests pass (%.0fs)\n", time.Since(began).Seconds())
	}
	var mu sync.Mutex
	var total time.Duration
	count := map[outcome]int{}
	_ = each(chosen, func(m mutation) error { // a mutation that is missed is no error of the run
		judge := r.judge
		if every {
			judge = r.every
		}
		verdict, all, used := judge(ctx, m)
		mu.Lock()
		defer mu.Unlock()
		count[all]++
		total += used
		fmt.Printf("%s  %-28s %s  %5.1fs  %s\n", all, m.name, m.promise, used.Seconds(), verdict)
		return nil
	})
	fmt.Printf("%d mutations, %d caught, %d missed, %d hung, %.0fs; their tests used %.0fs of processors\n",
		len(chosen), count[caught], count[missed], count[hung], time.Since(began).Seconds(), total.Seconds())
	if n := len(chosen) - count[caught]; n > 0 {
		return fmt.Errorf("%d of %d mutations are not caught", n, len(chosen))
	}
	return nil
}

// each calls f with each of all, a few concurrently, and joins the errors.
func each[T any](all []T, f func(T) error) error {
	var wg sync.WaitGroup
	slots, errs := make(chan struct{}, atOnce), make([]error, len(all))
	for i, one := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(one)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
