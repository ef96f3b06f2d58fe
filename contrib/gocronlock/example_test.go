package gocronlock_test

import (
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/baton-go/baton/contrib/gocronlock"
	"github.com/baton-go/baton/coordinator"
)

func Example() {
	var client *coordinator.Client // of coordinator.Open
	s, err := gocron.NewScheduler()
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.NewJob(gocron.CronJob("0 * * * *", false), gocron.NewTask(func() { log.Print("this hour's report") }),
		gocron.WithName("report"), gocron.WithDistributedJobLocker(gocronlock.NewLocker(client, time.Hour)))
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
}
