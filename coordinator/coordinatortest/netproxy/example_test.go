package netproxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

// A request was applied, but its reply is lost: the client cannot know.
func ExampleProxy_LoseReply() {
	var applied atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { applied.Add(1) }))
	defer server.Close()
	proxy, err := netproxy.New([]string{server.Listener.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()

	post := func() bool {
		reply, err := http.Post("http://"+proxy.Addr(), "text/plain", strings.NewReader("42"))
		if err == nil {
			err = reply.Body.Close()
		}
		return err == nil
	}
	proxy.LoseReply(netproxy.Any)
	fmt.Println("answered:", post(), "applied:", applied.Load())
	fmt.Println("answered:", post(), "applied:", applied.Load())
	// Output:
	// answered: false applied: 1
	// answered: true applied: 2
}
