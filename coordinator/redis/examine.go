package redis

import (
	"context"
	"net"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/driver"
)

// exposes reports whether a password crosses a network without TLS.
func exposes(o *goredis.UniversalOptions) bool {
	secret := o.Password+o.SentinelPassword != ""
	return secret && o.TLSConfig == nil && slices.ContainsFunc(o.Addrs, remote)
}

// remote reports whether an address is not of this machine.
func remote(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Examine implements driver.Examiner.
func (c *client) Examine(context.Context) []driver.Finding {
	if !c.exposed {
		return nil
	}
	return []driver.Finding{driver.Found(driver.Warning, "connection",
		"the password is sent without TLS").So("use the scheme rediss")}
}
