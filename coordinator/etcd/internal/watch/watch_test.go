package watch

import (
	"errors"
	"testing"
)

func TestWatchesShareAStreamUntilItsTokenIsRefused(t *testing.T) {
	var st Streams
	old := st.current()
	if len(old) != 1 {
		t.Errorf("metadata %v: a stream of its own", old)
	}
	st.failed(old, errors.New("another reason"))
	if st.gen.Load() != 0 {
		t.Error("moved on without need")
	}
	refused := errors.New("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token")
	st.failed(old, refused)
	st.failed(old, refused)
	if st.gen.Load() != 1 || st.current().Get(streamKey)[0] != "1" {
		t.Errorf("generation %d after two failures on one stream", st.gen.Load())
	}
	st.failed(st.current(), refused)
	if st.gen.Load() != 2 {
		t.Errorf("generation %d", st.gen.Load())
	}
}
