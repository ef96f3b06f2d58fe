package tusdlock_test

import (
	"log"
	"net/http"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/baton-go/baton/contrib/tusdlock"
	"github.com/baton-go/baton/coordinator"
)

func Example() {
	var client *coordinator.Client // of coordinator.Open
	composer := handler.NewStoreComposer()
	filestore.New("/mnt/shared/uploads").UseIn(composer)
	tusdlock.New(client).UseIn(composer)
	h, err := handler.NewHandler(handler.Config{
		StoreComposer: composer, BasePath: "/files/", GracefulRequestCompletionTimeout: time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", http.StripPrefix("/files/", h)))
}
