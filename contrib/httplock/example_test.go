package httplock_test

import (
	"log"
	"net/http"

	"github.com/baton-go/baton/contrib/httplock"
	"github.com/baton-go/baton/coordinator"
)

func Example() {
	var client *coordinator.Client // of coordinator.Open
	exclusive := httplock.New(client, "orders", 0, func(r *http.Request) string { return r.PathValue("id") })
	http.Handle("PUT /orders/{id}", exclusive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Print("with the token ", httplock.Lock(r.Context()).Token())
	})))
	log.Fatal(http.ListenAndServe(":8080", nil))
}
