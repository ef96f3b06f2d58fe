package httpfence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/httpfence"
)

func orders(token driver.Token) fence.Sequencer {
	return fence.Sequencer{Scope: fence.Scope{Service: "4f0c", Kind: "mutex", Name: "a b/ü"}, Token: token, Key: "k é"}
}

// serve starts a server whose handler responds with the token shown.
func serve(t *testing.T, check fence.Checker) (url string, client *http.Client) {
	t.Helper()
	s := httptest.NewServer(httpfence.Handler(check, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seq, _ := fence.From(r.Context())
		_, _ = io.WriteString(w, "served "+seq.Token.String())
	})))
	t.Cleanup(s.Close)
	return s.URL, &http.Client{Transport: httpfence.Transport(s.Client().Transport)}
}

// get sends a request and returns its status, body and refusal.
func get(ctx context.Context, t *testing.T, client *http.Client, url string, header ...string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		req.Header.Add(httpfence.Header, h)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(header) == 0 && req.Header.Get(httpfence.Header) != "" {
		t.Error("the caller's request was changed")
	}
	return resp.StatusCode, strings.TrimSpace(string(body)), httpfence.Refusal(resp)
}

func TestServerRefusesAStaleToken(t *testing.T) {
	gate := fence.NewGate(fence.Scope{})
	url, client := serve(t, gate.Check)
	for _, token := range []driver.Token{5, 7} {
		status, body, refusal := get(fence.With(t.Context(), orders(token)), t, client, url)
		if status != http.StatusOK || body != "served "+token.String() || refusal != nil {
			t.Errorf("token %d: %d %q, %v", token, status, body, refusal)
		}
	}
	status, body, refusal := get(fence.With(t.Context(), orders(5)), t, client, url)
	stale, ok := errors.AsType[*fence.StaleError](refusal)
	if status != http.StatusPreconditionFailed || !ok || *stale != (fence.StaleError{Shown: orders(5), Latest: 7}) || body != stale.Error() {
		t.Errorf("%d %q, %v", status, body, refusal)
	}
}

func TestRefusalsHaveTheirStatus(t *testing.T) {
	failed := errors.New("10.0.0.1 does not answer")
	judge := fence.Checker(func(_ context.Context, s fence.Sequencer) error {
		switch s.Token {
		case 1:
			return &fence.StaleError{Shown: s}
		case 2:
			return &fence.ForeignError{Shown: s, Want: fence.Scope{Kind: "mutex", Name: "x"}}
		case 3:
			return failed
		}
		return nil
	})
	url, client := serve(t, judge)
	none := t.Context()
	for what, c := range map[string]struct {
		ctx    context.Context
		header []string
		status int
		is     error
		says   string
	}{
		"over":        {fence.With(none, orders(1)), nil, 412, fence.ErrStale, "the grant is over"},
		"foreign":     {fence.With(none, orders(2)), nil, 412, fence.ErrForeign, ":mutex/x"},
		"unknown":     {fence.With(none, orders(3)), nil, 503, nil, "could not be checked"},
		"none":        {none, nil, 428, fence.ErrMissing, "no sequencer"},
		"malformed":   {none, []string{"5"}, 400, nil, "no sequencer; want baton1:"},
		"several":     {none, []string{orders(4).String(), orders(4).String()}, 400, nil, "several"},
		"joined":      {none, []string{orders(4).String() + ", " + orders(4).String()}, 400, nil, "several"},
		"by hand":     {none, []string{orders(4).String()}, 200, nil, "served 4"},
		"of context":  {fence.With(none, orders(4)), []string{orders(1).String()}, 200, nil, "served 4"},
		"by hand, no": {none, []string{orders(1).String()}, 412, nil, "the grant is over"},
	} {
		status, body, refusal := get(c.ctx, t, client, url, c.header...)
		if status != c.status || !errors.Is(refusal, c.is) || !strings.Contains(body, c.says) || strings.Contains(body, "10.0.0.1") {
			t.Errorf("%s: %d %q, %v", what, status, body, refusal)
		}
	}
}

func TestOtherResponsesHaveNoRefusal(t *testing.T) {
	req := httptest.NewRequestWithContext(fence.With(t.Context(), orders(5)), http.MethodPut, "/", nil)
	for _, r := range []*http.Response{
		{StatusCode: 200, Request: req, Header: http.Header{httpfence.RefusalHeader: {"stale 7"}}},
		{StatusCode: 412, Request: req},
		{StatusCode: 428, Request: req}, // of a server that wants If-Match
		{StatusCode: 412, Request: req, Header: http.Header{httpfence.RefusalHeader: {"stale"}}},
		{StatusCode: 412, Header: http.Header{httpfence.RefusalHeader: {"stale 7"}}},
	} {
		if err := httpfence.Refusal(r); err != nil {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func TestErrorsOfTheWorkAreNoRefusals(t *testing.T) {
	for _, err := range []error{errors.New("disk full"), context.Canceled, driver.ErrInvalid} {
		w := httptest.NewRecorder()
		if httpfence.Refuse(w, err) || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("%v was answered with %d %q", err, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	if !httpfence.Refuse(w, &fence.StaleError{Shown: orders(5), Latest: 7}) || w.Code != http.StatusPreconditionFailed {
		t.Errorf("a refusal was answered with %d", w.Code)
	}
}

func TestAnswersAreNotStored(t *testing.T) {
	handler := httpfence.Handler((&fence.Gate{}).Check, http.NotFoundHandler())
	for _, shown := range []string{orders(7).String(), orders(5).String(), ""} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Header.Set(httpfence.Header, shown)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("Vary") != httpfence.Header {
			t.Errorf("status %d, headers %v", w.Code, h)
		}
	}
}

func TestSequencerStaysWithItsHost(t *testing.T) {
	var shown []string
	note := func(w http.ResponseWriter, r *http.Request) { shown = append(shown, r.Header.Get(httpfence.Header)) }
	other := httptest.NewServer(http.HandlerFunc(note))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/here", note)
	mux.Handle("/moved", http.RedirectHandler("/here", http.StatusTemporaryRedirect))
	mux.Handle("/left", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	first := httptest.NewServer(mux)
	defer first.Close()
	client := &http.Client{Transport: httpfence.Transport(nil)}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/moved", "/left"} {
		get(fence.With(t.Context(), orders(5)), t, client, first.URL+path)
	}
	if len(shown) != 2 || shown[0] != orders(5).String() || shown[1] != "" {
		t.Errorf("shown: %q", shown)
	}
}

// idle counts calls of CloseIdleConnections.
type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestIdleConnectionsOfTheBaseAreClosed(t *testing.T) {
	base := &idle{}
	(&http.Client{Transport: httpfence.Transport(base)}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("closed %d times", base.closed)
	}
}
