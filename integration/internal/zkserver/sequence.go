package zkserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
)

// The format of a transaction log: a header, then records of a checksum, a
// length, the transaction and an end mark. Unused space is zero.
const (
	logHeader    = 16
	recordHeader = 12
	txnHeader    = 32 // client, cxid, zxid, time, type
	typeCreate   = 1
)

// SetSequence sets the next sequence number of a node's parent, as if two
// thousand million children had been created and deleted: the number that
// ZooKeeper appends to names is the parent's count of changes. node was made by
// a plain create. The server must not run; it reads the changed log at its next
// start.
func (n *Node) SetSequence(node string, next int32) error {
	if n.Running() {
		return errors.New("zkserver: the server is running")
	}
	logs, err := filepath.Glob(filepath.Join(n.dataDir, "version-2", "log.*"))
	if err != nil {
		return err
	}
	found := false
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("zkserver: %w", err)
		}
		if !patchLog(b, node, next) {
			continue
		}
		found = true
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return fmt.Errorf("zkserver: %w", err)
		}
	}
	if !found {
		return fmt.Errorf("zkserver: no log contains the creation of %s", node)
	}
	return nil
}

// patchLog changes the record of a node's creation, and its checksum.
func patchLog(b []byte, node string, next int32) (found bool) {
	for at := logHeader; at+recordHeader <= len(b); {
		size := int(binary.BigEndian.Uint32(b[at+8:]))
		txn := b[min(len(b), at+recordHeader):]
		if size == 0 || size > len(txn) {
			return found
		}
		txn = txn[:size]
		if count := parentCount(txn, node); count != nil {
			binary.BigEndian.PutUint32(count, uint32(next))
			binary.BigEndian.PutUint64(b[at:], uint64(adler32.Checksum(txn)))
			found = true
		}
		at += recordHeader + size + 1
	}
	return found
}

// parentCount returns the bytes of a create transaction that have the parent's
// new count, or nil if it does not create the node: path, data, a list of
// permissions, a flag, the count.
func parentCount(txn []byte, node string) []byte {
	if len(txn) < txnHeader || binary.BigEndian.Uint32(txn[txnHeader-4:]) != typeCreate {
		return nil
	}
	rest := txn[txnHeader:]
	next := func() (field []byte) {
		if len(rest) < 4 {
			return nil
		}
		size := max(0, int(int32(binary.BigEndian.Uint32(rest))))
		size = min(size, len(rest)-4)
		field, rest = rest[4:4+size], rest[4+size:]
		return field
	}
	if !slices.Equal(next(), []byte(node)) {
		return nil
	}
	next() // data
	if len(rest) < 4 {
		return nil
	}
	permissions := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	for range permissions {
		if len(rest) < 4 {
			return nil
		}
		rest = rest[4:] // permissions
		next()          // scheme
		next()          // ID
	}
	if len(rest) < 5 {
		return nil
	}
	return rest[1:5]
}
