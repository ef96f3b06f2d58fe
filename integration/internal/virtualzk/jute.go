package virtualzk

import "encoding/binary"

// Operations, of requests and of the results of a transaction.
const (
	opCreate          int32 = 1
	opDelete          int32 = 2
	opExists          int32 = 3
	opGetData         int32 = 4
	opSetData         int32 = 5
	opGetChildren     int32 = 8
	opSync            int32 = 9
	opPing            int32 = 11
	opGetChildren2    int32 = 12
	opCheck           int32 = 13
	opMulti           int32 = 14
	opCreate2         int32 = 15
	opCreateContainer int32 = 19
	opAuth            int32 = 100
	opSetWatches      int32 = 101
	opSetWatches2     int32 = 105
	opCreateSession   int32 = -10
	opCloseSession    int32 = -11
	opError           int32 = -1
)

// Error codes.
const (
	codeInconsistency    int32 = -2 // of an operation after the one that failed
	codeUnimplemented    int32 = -6
	codeBadArguments     int32 = -8
	codeNoNode           int32 = -101
	codeNoAuth           int32 = -102
	codeBadVersion       int32 = -103
	codeEphemeralParent  int32 = -108
	codeNodeExists       int32 = -110
	codeNotEmpty         int32 = -111
	codeSessionExpired   int32 = -112
	codeInvalidACL       int32 = -114
	codeAuthFailed       int32 = -115
	codeSessionMoved     int32 = -118
	codeCredentialsFirst int32 = -124
)

// decoder reads ZooKeeper's encoding. After an error all reads are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return make([]byte, 8)
	}
	part := d.b[:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }
func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }
func (d *decoder) bool() bool   { return d.take(1)[0] != 0 }
func (d *decoder) text() string { return string(d.bytes()) }

// bytes returns nil for the length -1, which is not the same as 0.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n < 0 {
		return nil
	}
	part := d.take(int(n))
	if d.bad {
		return nil
	}
	return append([]byte{}, part...)
}

func (d *decoder) texts() []string {
	var all []string
	for n := d.int32(); n > 0 && !d.bad; n-- {
		all = append(all, d.text())
	}
	return all
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText(b []byte, s string) []byte { return append(appendInt32(b, int32(len(s))), s...) }

func appendBytes(b, data []byte) []byte {
	if data == nil {
		return appendInt32(b, -1)
	}
	return append(appendInt32(b, int32(len(data))), data...)
}

func appendTexts(b []byte, all []string) []byte {
	b = appendInt32(b, int32(len(all)))
	for _, s := range all {
		b = appendText(b, s)
	}
	return b
}

// framed returns a message with its length before it.
func framed(message []byte) []byte {
	return append(appendInt32(make([]byte, 0, 4+len(message)), int32(len(message))), message...)
}

// reply returns the reply to a request.
func reply(xid int32, zxid int64, code int32, body []byte) []byte {
	b := appendInt32(make([]byte, 0, 16+len(body)), xid)
	b = appendInt32(appendInt64(b, zxid), code)
	if code != 0 {
		return b
	}
	return append(b, body...)
}
