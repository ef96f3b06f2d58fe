package zkwire

import "strconv"

// Operation codes and reserved transaction ids of ZooKeeper's client protocol.
const (
	opPing        = 11
	opAuth        = 100
	opSetWatches  = 101
	opSetWatches2 = 105
	opClose       = -11

	xidNotification = -1
	xidPing         = -2
	xidAuth         = -4
	xidSetWatches   = -8
)

// names are the operations as Snapshot and netproxy's Match see them.
var names = map[int32]string{
	1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 6: "getACL", 7: "setACL",
	8: "getChildren", 9: "sync", opPing: "ping", 12: "getChildren2", 13: "check", 14: "multi",
	15: "create2", 16: "reconfig", 17: "checkWatches", 18: "removeWatches", 19: "createContainer",
	20: "deleteContainer", 21: "createTTL", 22: "multiRead", opAuth: "auth",
	opSetWatches: "setWatches", 102: "sasl", 103: "getEphemerals", 104: "getAllChildrenNumber",
	opSetWatches2: "setWatches2", 106: "addWatch", 107: "whoAmI",
	-10: "createSession", opClose: "closeSession",
}

// name is never empty: an operation that is not in the list has its number as
// its name.
func name(op int32) string {
	if s, ok := names[op]; ok {
		return s
	}
	return "op" + strconv.Itoa(int(op))
}
