// Package httpfence sends a sequencer with each HTTP request, and lets servers
// refuse stale ones.
//
//	// the holder
//	client := &http.Client{Transport: httpfence.Transport(nil)}
//	seq, err := lock.Sequencer(ctx)
//	req, err := http.NewRequestWithContext(fence.With(ctx, seq), "PUT", url, body)
//	resp, err := client.Do(req)
//	... httpfence.Refusal(resp) is a *fence.StaleError that names both tokens, or nil
//
//	// the resource
//	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})
//	http.Handle("/orders/", httpfence.Handler(gate.Check, orders))
//
// The handler checks once, before it serves a request. The request may be
// served beside one of the next holder. If that does harm, read the body, and
// then do the work in the gate's Do, or guard its transaction with package
// sqlfence; fence.From(r.Context()) returns the sequencer:
//
//	err := gate.Do(r.Context(), seq, func(ctx context.Context) error { return pay(ctx, order) })
//	if err != nil && !httpfence.Refuse(w, err) {
//		... an error of pay, or a context that has ended
//	}
//
// Put the handler behind your authentication: a sequencer can be forged, and a
// gate that has admitted a very large token refuses all others.
package httpfence

import (
	"errors"
	"net/http"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Header is the request header with the sequencer.
const Header = "Baton-Sequencer"

// RefusalHeader is the response header with the refusal. Its value is that of
// fence.EncodeRefusal.
const RefusalHeader = "Baton-Refusal"

// Transport returns a RoundTripper that sends the sequencer of the request's
// context, if it has one (see fence.With), but not to another host that the
// first one redirects to. A nil base is http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if s, ok := fence.From(r.Context()); ok && sameHost(r) {
		r = r.Clone(r.Context()) // a RoundTripper must not change its request
		r.Header.Set(Header, s.String())
	}
	return t.base.RoundTrip(r)
}

// sameHost reports whether the request goes to the host that the caller named:
// a redirect may lead to a server that the sequencer does not concern.
func sameHost(r *http.Request) bool {
	first := r
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first.URL.Host == r.URL.Host
}

// CloseIdleConnections is what http.Client calls.
func (t transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Handler returns a handler that checks the sequencer of each request, and puts
// it into the context of the request for next. Refuse answers refused requests;
// one whose check failed is answered with 503, and the reason is not shown.
// Responses are marked as not to be stored: a cache would answer without a
// check. next may set another Cache-Control.
func Handler(check fence.Checker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Add("Vary", Header)
		s, err := fence.ParseValues(r.Header.Values(Header))
		if err == nil {
			err = check(r.Context(), s)
		}
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(fence.With(r.Context(), s)))
		case Refuse(w, err):
		case errors.Is(err, driver.ErrInvalid): // of the service, which knows the sequencer's name
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			http.Error(w, "the sequencer could not be checked", http.StatusServiceUnavailable)
		}
	})
}

// Refuse answers a request whose sequencer was refused, and reports whether err
// says so. For any other error, such as one of the work that a gate admitted,
// it does nothing and returns false.
//
//	428 Precondition Required  the sequencer is missing
//	400 Bad Request            it is malformed, or there are several
//	412 Precondition Failed    it is stale or foreign; the client calls Refusal
func Refuse(w http.ResponseWriter, err error) bool {
	status := http.StatusPreconditionFailed
	refusal := fence.EncodeRefusal(err)
	switch {
	case errors.Is(err, fence.ErrMissing):
		status = http.StatusPreconditionRequired
	case errors.Is(err, fence.ErrMalformed):
		status = http.StatusBadRequest
	case refusal == "":
		return false
	}
	if refusal != "" {
		w.Header().Set(RefusalHeader, refusal)
	}
	http.Error(w, err.Error(), status)
	return true
}

// Refusal returns why a server refused a request: the *fence.StaleError or
// *fence.ForeignError of its check, or fence.ErrMissing. It returns nil for any
// other response. It does not read the body.
func Refusal(r *http.Response) error {
	if r.StatusCode != http.StatusPreconditionRequired && r.StatusCode != http.StatusPreconditionFailed {
		return nil
	}
	var shown fence.Sequencer // none: the request had no sequencer
	if r.Request != nil {
		shown, _ = fence.From(r.Request.Context())
	}
	err := fence.DecodeRefusal(shown, r.Header.Get(RefusalHeader))
	if err != nil && shown == (fence.Sequencer{}) && !errors.Is(err, fence.ErrMissing) {
		return nil // an answer about a sequencer that this client did not show
	}
	return err
}
