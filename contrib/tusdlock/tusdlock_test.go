package tusdlock_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/contrib/tusdlock"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// replica is a tusd behind a load balancer.
type replica struct {
	http.Handler
	locker *tusdlock.Locker
	link   *memory.Driver
}

// play runs a test with two replicas that share a directory.
func play(t *testing.T, test func(t *testing.T, a, b *replica)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // tusd's goroutines end after their requests
		svc := memory.NewService()
		var replicas [2]*replica
		for i := range replicas {
			r := &replica{}
			var client *coordinator.Client
			client, r.link = lab.Replica(t, svc)
			r.locker = tusdlock.New(client)
			composer := handler.NewStoreComposer()
			filestore.New(dir).UseIn(composer)
			r.locker.UseIn(composer)
			h, err := handler.NewHandler(handler.Config{
				StoreComposer: composer, BasePath: "/files/", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
				AcquireLockTimeout: time.Minute, GracefulRequestCompletionTimeout: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			r.Handler = http.StripPrefix("/files/", h)
			replicas[i] = r
		}
		test(t, replicas[0], replicas[1])
	})
}

// do sends a request of the tus protocol.
func (r *replica) do(t *testing.T, method, path string, body io.Reader, headers ...string) *http.Response {
	// net/http ends the context when the request has been served.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, method, path, body)
	request.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	return w.Result()
}

// create returns the path of a new upload of ten bytes.
func (r *replica) create(t *testing.T) (path string) {
	t.Helper()
	response := r.do(t, "POST", "/files/", nil, "Upload-Length", "10")
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("POST: %s", response.Status)
	}
	_, path, _ = strings.Cut(response.Header.Get("Location"), "example.com")
	return path
}

// slow uploads five bytes and then nothing, and does not end by itself.
func (r *replica) slow(t *testing.T, path string) (ended chan *http.Response) {
	t.Helper()
	ended = make(chan *http.Response, 1)
	in, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	go func() {
		ended <- r.do(t, "PATCH", path, in, "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream")
	}()
	if _, err := out.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return ended
}

// offset asks how much of the upload there is.
func (r *replica) offset(t *testing.T, path, want string) {
	t.Helper()
	response := r.do(t, "HEAD", path, nil)
	if got := response.Header.Get("Upload-Offset"); response.StatusCode != http.StatusOK || got != want {
		t.Errorf("HEAD: %s, offset %q", response.Status, got)
	}
}

func ended(request chan *http.Response) bool {
	synctest.Wait()
	select {
	case <-request:
		return true
	default:
		return false
	}
}

// TestClientThatComesBackInterruptsItsOldRequest: that hangs in another
// replica.
func TestClientThatComesBackInterruptsItsOldRequest(t *testing.T) {
	play(t, func(t *testing.T, a, b *replica) {
		path := a.create(t)
		old := a.slow(t, path)
		time.Sleep(10 * lab.TTL) // the lock is held for as long as it is needed
		if ended(old) {
			t.Fatal("the request ended by itself")
		}
		began := time.Now()
		b.offset(t, path, "5")
		if !ended(old) || time.Since(began) != 0 {
			t.Errorf("after %v", time.Since(began))
		}
		response := b.do(t, "PATCH", path, strings.NewReader("world"), "Upload-Offset", "5", "Content-Type", "application/offset+octet-stream")
		if response.StatusCode != http.StatusNoContent || response.Header.Get("Upload-Offset") != "10" {
			t.Errorf("PATCH: %s", response.Status)
		}
	})
}

// TestRequestWithoutItsLockEndsBeforeTheNextBegins: its replica is cut off.
func TestRequestWithoutItsLockEndsBeforeTheNextBegins(t *testing.T) {
	play(t, func(t *testing.T, a, b *replica) {
		path := a.create(t)
		old := a.slow(t, path)
		a.link.Cut()
		began := time.Now()
		b.offset(t, path, "5")
		if took := time.Since(began); !ended(old) || took > lab.TTL {
			t.Errorf("another replica has the upload after %v, the old request ended: %v", took, ended(old))
		}
	})
}

// TestWaitEndsWithALockTimeout if the holder does not give way. Nothing of the
// wait is left behind.
func TestWaitEndsWithALockTimeout(t *testing.T) {
	play(t, func(t *testing.T, a, b *replica) {
		id := strings.Repeat("/", 300)
		var interrupts [2]int
		newLock := func(r *replica) handler.Lock {
			lock, err := r.locker.NewLock(id)
			if err != nil {
				t.Fatal(err)
			}
			return lock
		}
		first, second := newLock(a), newLock(b)
		if err := first.Lock(t.Context(), func() { interrupts[0]++ }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := second.Lock(ctx, func() { interrupts[1]++ }); !errors.Is(err, handler.ErrLockTimeout) {
			t.Errorf("Lock = %v", err)
		}
		if err := second.Unlock(); !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("Unlock without the lock = %v", err)
		}
		if err := first.Unlock(); err != nil {
			t.Error(err)
		}
		if err := second.Lock(t.Context(), func() { interrupts[1]++ }); err != nil {
			t.Error(err)
		}
		if err := second.Unlock(); err != nil {
			t.Error(err)
		}
		if interrupts != [2]int{1, 0} {
			t.Errorf("interrupts: %v", interrupts)
		}
		b.link.Cut()
		if err := second.Lock(ctx, nil); !errors.Is(err, handler.ErrLockTimeout) {
			t.Errorf("Lock without the service = %v", err)
		}
	})
}
