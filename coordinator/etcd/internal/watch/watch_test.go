package watch

import (
	"errors"
	"testing"
)

func TestWatchesShareAStreamUntilItsTokenIsRefused(t *testing.T) {
	var st Streams
	old, md := st.current()
	if len(md) != 1 {
		t.Errorf("metadata %v: want the shared stream", md)
	}
	st.failed(old, errors.New("another reason"))
	if st.gen.Load() != 0 {
		t.Error("the stream was changed after another error")
	}
	refused := errors.New("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token")
	st.failed(old, refused)
	st.failed(old, refused)
	gen, md := st.current()
	if gen != 1 || len(md) != 2 {
		t.Errorf("generation %d, metadata %v after two failures on one stream", gen, md)
	}
	st.failed(gen, refused)
	if st.gen.Load() != 2 {
		t.Errorf("generation %d", st.gen.Load())
	}
}
