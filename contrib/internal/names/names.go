// Package names makes names of locks from keys that are not Baton's.
package names

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/baton-go/baton/coordinator"
)

// Lock returns the name of a key's lock: "prefix/key", or, if that is no valid
// name, prefix and the hash of the key. Different keys have different names.
func Lock(prefix, key string) string {
	name := prefix + "/" + key
	if coordinator.CheckName(name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + "/sha256-" + hex.EncodeToString(sum[:])
}
