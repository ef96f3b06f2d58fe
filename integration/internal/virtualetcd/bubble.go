package virtualetcd

import _ "unsafe" // for go:linkname

// valCtxCh is a channel on which clientv3 waits and which never closes. Each
// bubble needs its own.
//
//go:linkname valCtxCh go.etcd.io/etcd/client/v3.valCtxCh
var valCtxCh chan struct{}
