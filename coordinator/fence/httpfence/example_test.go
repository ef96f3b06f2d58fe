package httpfence_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/httpfence"
)

// The server refuses the first holder of a lock after a request of the second.
func Example() {
	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})
	orders := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "paid") })
	server := httptest.NewServer(httpfence.Handler(gate.Check, orders))
	defer server.Close()

	client := &http.Client{Transport: httpfence.Transport(nil)}
	pay := func(seq fence.Sequencer) {
		req, err := http.NewRequestWithContext(fence.With(context.Background(), seq), http.MethodPut, server.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		fmt.Println(resp.StatusCode, httpfence.Refusal(resp))
	}
	first, second := sequencer(5), sequencer(7) // in a program: lock.Sequencer(ctx)
	pay(first)
	pay(second)
	pay(first)
	// Output:
	// 200 <nil>
	// 200 <nil>
	// 412 fence: stale token: token 5 of mutex "orders", after token 7
}

func sequencer(token int64) fence.Sequencer {
	seq, err := fence.Parse(fmt.Sprintf("baton1:4f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5:mutex/orders:%d:key", token))
	if err != nil {
		log.Fatal(err)
	}
	return seq
}
