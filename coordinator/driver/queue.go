package driver

import (
	"net/url"
	"strings"
)

// NewQueue returns the queue of a kind, letters and "-", and a name. It escapes
// the name to one path component, slashes included: if the queue of "a/b" were
// inside that of "a", etcd's prefix ranges and ZooKeeper's children would mix
// their entries. It does not check its arguments.
func NewQueue(kind, name string) Queue {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(kind)
	b.WriteByte('/')
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return Queue(b.String())
}

// Split returns the kind and name of a queue; ok is false if NewQueue did not
// make it.
func (q Queue) Split() (kind, name string, ok bool) {
	kind, escaped, found := strings.Cut(string(q), "/")
	name, err := url.PathUnescape(escaped)
	if !found || err != nil || NewQueue(kind, name) != q {
		return "", "", false
	}
	return kind, name, true
}
