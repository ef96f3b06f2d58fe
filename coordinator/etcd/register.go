package etcd

import "github.com/baton-go/baton/coordinator"

// Importing this package makes its schemes known to coordinator.Open.
func init() {
	coordinator.Register("etcd", Open)
	coordinator.Register("etcds", Open)
}
