// Package etcdserver starts real etcd servers on loopback: one inside this
// process, or one or three as processes of their own that a test can kill,
// pause and restart.
//
// The version is the one that this module requires: the binary is built once
// from the module and kept in the user's cache directory. BATON_ETCD names
// another binary, for example of an old release.
package etcdserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Election timing of all servers here. It lets a lease live one second (etcd's
// floor is one and a half election timeouts, rounded up to seconds) and is slow
// enough that a busy machine causes no elections; with a tenth of it, servers
// were seen to lose sessions under memory pressure.
const (
	Heartbeat = 50 * time.Millisecond
	Election  = 500 * time.Millisecond
)

// Embedded is a single etcd inside this process, for demos and for tests of
// semantics: it cannot be paused or killed.
type Embedded struct {
	etcd *embed.Etcd
	dir  string
}

// StartEmbedded starts a server with an empty data directory and waits until it
// serves clients on a port of loopback, a free one if it is 0. It is silent.
// Its files are deleted by Close.
func StartEmbedded(ctx context.Context, port int) (*Embedded, error) {
	dir, err := os.MkdirTemp("", "baton-etcd-")
	if err != nil {
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	etcd, err := embed.StartEtcd(embeddedConfig(dir, port))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	e := &Embedded{etcd: etcd, dir: dir}
	select {
	case <-etcd.Server.ReadyNotify():
		return e, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.Close()
	return nil, fmt.Errorf("etcdserver: not ready: %w", err)
}

// embeddedConfig lets the kernel choose the ports that are not given: this
// server is never restarted on them.
func embeddedConfig(dir string, port int) *embed.Config {
	clients := []url.URL{{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)}}
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Name = "embedded"
	cfg.Dir = dir
	cfg.TickMs = uint(Heartbeat.Milliseconds())
	cfg.ElectionMs = uint(Election.Milliseconds())
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients, clients
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = anyPort, anyPort
	// The default has the default port, but must agree with the advertised URL.
	cfg.InitialCluster = cfg.Name + "=" + anyPort[0].String()
	cfg.UnsafeNoFsync = true // the data does not survive the process anyway
	// Close reports the ends of its own listeners as errors.
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return cfg
}

// Endpoints returns the addresses for a client, "127.0.0.1:port".
func (e *Embedded) Endpoints() []string {
	return []string{e.etcd.Clients[0].Addr().String()}
}

// Close stops the server and deletes its files.
func (e *Embedded) Close() {
	e.etcd.Close()
	_ = os.RemoveAll(e.dir)
}
