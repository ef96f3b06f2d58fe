package cronlock_test

import (
	"context"
	"log"

	"github.com/robfig/cron/v3"

	"github.com/baton-go/baton/contrib/cronlock"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/once"
)

func Example() {
	ctx := context.Background()
	var client *coordinator.Client // of coordinator.Open
	nightly, err := once.New(client, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 0 3 * * *")
	if err != nil {
		log.Fatal(err)
	}
	c := cron.New()
	c.Schedule(schedule, cronlock.Job(ctx, nightly, schedule, func(ctx context.Context, h *once.Hold) error {
		return ctx.Err() // the report: ctx ends if the hold is lost
	}, func(err error) { log.Print(err) }))
	c.Run()
}
