package certmagiclock_test

import (
	"context"
	"log"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/baton-go/baton/contrib/certmagiclock"
	"github.com/baton-go/baton/coordinator"
)

func Example() {
	client, err := coordinator.Open(os.Getenv("BATON_URL")) // and import its driver
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	certmagic.Default.Storage = certmagiclock.New(client, &certmagic.FileStorage{Path: "/mnt/shared/certificates"})
	log.Fatal(certmagic.HTTPS([]string{"example.org"}, nil))
}
