// Bench measures Baton beside the floors of its services and beside other
// libraries, in one run on the same servers.
//
//	make bench                                        all, less than 18 minutes; rewrites the docs
//	go run ./cmd/bench -quick                         all cases at a small size, two minutes
//	go run ./cmd/bench -run 'turns/etcd/' -rounds 3   some of them
//	go run ./cmd/bench -run '^(fleet|fresh)/'         64 clients: 1,000 names at random, and new names
//	go run ./cmd/bench -run '^kept/'                  turns that a process keeps, without and with WithRetain; only by request
//	go run ./cmd/bench -run '^idle/'                  1,000 clients that keep their sessions; only by request
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/baton-go/baton/integration/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// flags are the command's flags.
type flags struct {
	bench.Options
	docs, json, from string
}

func parse() (flags, error) {
	f := flags{Options: bench.Options{Progress: os.Stderr}}
	quick := flag.Bool("quick", false, "few rounds of few grants: checks that all cases run; the figures mean nothing")
	cases := flag.String("run", "", "regular expression of cases to run: pair, permit, turns, scale, fleet, fresh, permits, readers, waiters, kept and idle (only by request), then /service and /contenders")
	subjects := flag.String("subjects", "", "regular expression of subjects to run; without the floor there are no ratios")
	flag.IntVar(&f.Rounds, "rounds", 0, "measurements of each subject (default: 5, or 1 with -quick); more in cases with finer rounds")
	flag.DurationVar(&f.Sample, "sample", 0, "time of one measurement (default: 500ms, or 50ms with -quick)")
	flag.StringVar(&f.docs, "docs", "", "root of the repository whose docs to rewrite")
	flag.StringVar(&f.json, "json", "", "file to which to write the figures")
	flag.StringVar(&f.from, "from", "", "read the figures from this file instead of measuring")
	flag.Parse()
	rounds, sample := 5, 500*time.Millisecond
	if *quick {
		rounds, sample, f.Divide = 1, 50*time.Millisecond, 8
	}
	if f.Rounds == 0 {
		f.Rounds = rounds
	}
	if f.Sample == 0 {
		f.Sample = sample
	}
	for text, to := range map[*string]**regexp.Regexp{cases: &f.Cases, subjects: &f.Subjects} {
		if *text == "" {
			continue
		}
		var err error
		if *to, err = regexp.Compile(*text); err != nil {
			return f, err
		}
	}
	return f, nil
}

func run(ctx context.Context) error {
	f, err := parse()
	if err != nil {
		return err
	}
	var r *bench.Result
	if f.from != "" {
		r, err = bench.Load(f.from)
	} else {
		r, err = bench.Run(ctx, f.Options)
	}
	if err != nil {
		return err
	}
	if err := r.Print(os.Stdout); err != nil {
		return err
	}
	if f.json != "" {
		if err := r.WriteJSON(f.json); err != nil {
			return err
		}
	}
	if f.docs == "" {
		return nil
	}
	if !r.Complete {
		return errors.New("the docs are not written: some cases were left out or cut short")
	}
	return r.WriteDocs(f.docs)
}
