package memory

import "github.com/baton-go/baton/coordinator"

// Importing this package makes its schemes known to coordinator.Open.
func init() {
	coordinator.Register("memory", Open)
}
