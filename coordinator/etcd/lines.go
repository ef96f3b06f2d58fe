package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// pageOfLines is how many keys a request for lines reads. The member walks its index of the rest of the namespace for each request,
// so many lines want large pages; and a line that is longer than a page is left with the first one.
const pageOfLines = 512

// Lines reads the names of keys, page by page, by quorum. When a page ends inside a line in which somebody stands, the next one begins
// behind that line.
func (s *session) Lines(ctx context.Context) ([]driver.Line, error) {
	var lines []driver.Line
	from, end := s.keys.base, clientv3.GetPrefixRangeEnd(s.keys.base)
	for {
		if err := s.alive(); err != nil {
			return nil, err
		}
		r, err := s.get(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(pageOfLines), clientv3.WithKeysOnly()))
		if err != nil {
			return nil, s.failed(ctx, err)
		}
		for _, kv := range r.kvs {
			line, ok := s.keys.lineOf(string(kv.Key))
			if !ok {
				from = string(kv.Key) + "\x00"
				continue
			}
			if from = s.keys.lineEnd(line); len(lines) == 0 || lines[len(lines)-1] != line { // its keys are neighbours
				lines = append(lines, line)
			}
		}
		if r.count <= int64(len(r.kvs)) {
			return lines, nil
		}
	}
}

// lineOf is the line in which a key is an entry. Others are records, tails, marks and sentinels, or nothing of Baton's.
func (l layout) lineOf(key string) (line driver.Line, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(key, l.base), "/", 3)
	if len(parts) < 3 || parts[0] == "" || parts[1] == "" || isMark(key) {
		return "", false
	}
	return driver.Line(parts[0] + "/" + parts[1]), true
}
