package driver_test

import (
	"fmt"
	"net/url"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// An Opener reads its URL with Hosts, Namespace and Params. Their errors show
// no secrets.
func Example() {
	u, err := url.Parse("consul://user:secret@h1,h2:8501/apps/orders?ttl=10s&datacentre=east")
	if err != nil {
		fmt.Println(err)
		return
	}
	hosts, err := driver.Hosts(u, "8500")
	fmt.Println(hosts, err)
	namespace, err := driver.Namespace(u.Path)
	fmt.Println(namespace, err)

	p := driver.NewParams(u)
	fmt.Println(p.Duration("ttl", 5*time.Second))
	fmt.Println(p.Err()) // names the parameter that was not read
	// Output:
	// [h1:8500 h2:8501] <nil>
	// apps/orders <nil>
	// 10s
	// invalid: unknown URL parameter "datacentre" (known: identity, ttl)
}
