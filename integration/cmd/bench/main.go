// Bench measures Baton beside the floors of its services and beside other libraries, in one run on the same servers.
//
//	make bench                                        all, some fifteen minutes
//	go run ./cmd/bench -quick                         a look at all cases, two minutes
//	go run ./cmd/bench -run 'turns/etcd/' -rounds 3   some of them
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"

	"github.com/baton-go/baton/integration/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := bench.Options{Progress: os.Stderr}
	quick := flag.Bool("quick", false, "few rounds of few turns: to see that all runs, not to measure")
	cases := flag.String("run", "", "regular expression: only these cases")
	subjects := flag.String("subjects", "", "regular expression: only these subjects; without the floor there are no ratios")
	flag.IntVar(&o.Rounds, "rounds", 0, "measurements of each subject")
	flag.DurationVar(&o.Sample, "sample", 0, "time of one measurement")
	flag.Parse()
	var err error
	if o.Cases, err = regexp.Compile(*cases); err != nil {
		return err
	}
	if o.Subjects, err = regexp.Compile(*subjects); err != nil {
		return err
	}
	rounds, sample := 5, time.Second
	if *quick {
		rounds, sample, o.Divide = 1, 50*time.Millisecond, 8
	}
	if o.Rounds == 0 {
		o.Rounds = rounds
	}
	if o.Sample == 0 {
		o.Sample = sample
	}
	_, err = bench.Run(ctx, o)
	return err
}
