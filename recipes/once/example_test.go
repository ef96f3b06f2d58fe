package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/once"
)

// Three replicas have the same timer. The second comes when the first has long
// completed the job, and the third runs the job of the next day.
func Example() {
	ctx := context.Background()
	service := memory.NewService() // stands for coordinator.Open("etcd://…") or "zk://…"
	scheduled := time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)
	for i, at := range []time.Time{scheduled, scheduled, scheduled.AddDate(0, 0, 1)} {
		client, err := coordinator.New(service.Driver(), coordinator.WithIdentity(fmt.Sprint("web-", i+1)))
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close(ctx)
		nightly, err := once.New(client, "nightly-report")
		if err != nil {
			log.Fatal(err)
		}
		err = nightly.Do(ctx, once.At(at), func(context.Context, *once.Hold) error {
			fmt.Println(client.Identity(), "writes the report of", once.At(at))
			return nil
		})
		fmt.Println(client.Identity(), err)
	}
	// Output:
	// web-1 writes the report of 2026-11-28T03:00:00Z
	// web-1 <nil>
	// web-2 <nil>
	// web-3 writes the report of 2026-11-29T03:00:00Z
	// web-3 <nil>
}

// Without WithRepeat, a run that did not complete is over for all replicas.
func ExampleWithRepeat() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	tries := 0
	work := func(context.Context, *once.Hold) error {
		if tries++; tries == 1 {
			return errors.New("no space")
		}
		return nil
	}
	mail, err := once.New(client, "mail")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mail.Do(ctx, "november", work))
	var incomplete *once.IncompleteError
	fmt.Println(errors.As(mail.Do(ctx, "november", work), &incomplete), tries)

	tries = 0
	report, err := once.New(client, "report", once.WithRepeat())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Do(ctx, "november", work))
	fmt.Println(report.Do(ctx, "november", work), tries)
	// Output:
	// no space
	// true 1
	// no space
	// <nil> 2
}
