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
// served beside one of the next holder. If that does harm, do the work in the
// gate's Do, or guard its transaction with package sqlfence:
// fence.From(r.Context()) returns the sequencer, and Refuse answers with their
// error.
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
// context, if it has one (see fence.With). A nil base is http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if s, ok := fence.From(r.Context()); ok {
		r = r.Clone(r.Context()) // a RoundTripper must not change its request
		r.Header.Set(Header, s.String())
	}
	return t.base.RoundTrip(r)
}

// Handler returns a handler that checks the sequencer of each request, and puts
// it into the context of the request for next. Refuse answers refused requests.
func Handler(check fence.Checker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := fence.ParseValues(r.Header.Values(Header))
		if err == nil {
			err = check(r.Context(), s)
		}
		if err != nil {
			Refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(fence.With(r.Context(), s)))
	})
}

// Refuse answers a request whose sequencer a check refused:
//
//	428 Precondition Required  the sequencer is missing
//	400 Bad Request            it is malformed, or there are several
//	412 Precondition Failed    it is stale or foreign; the client calls Refusal
//	503 Service Unavailable    the check failed; the reason is not shown
func Refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "the sequencer could not be checked"
	switch refusal := fence.EncodeRefusal(err); {
	case refusal != "":
		status = http.StatusPreconditionFailed
		w.Header().Set(RefusalHeader, refusal)
	case errors.Is(err, fence.ErrMissing):
		status = http.StatusPreconditionRequired
	case errors.Is(err, driver.ErrInvalid):
		status = http.StatusBadRequest
	}
	if status != http.StatusServiceUnavailable {
		text = err.Error()
	}
	http.Error(w, text, status)
}

// Refusal returns why a server refused a request: the *fence.StaleError or
// *fence.ForeignError of its check, or fence.ErrMissing. It returns nil for any
// other response. It does not read the body.
func Refusal(r *http.Response) error {
	switch {
	case r.StatusCode == http.StatusPreconditionRequired:
		return fence.ErrMissing
	case r.StatusCode != http.StatusPreconditionFailed || r.Request == nil:
		return nil
	}
	s, ok := fence.From(r.Request.Context())
	if !ok {
		return nil
	}
	return fence.DecodeRefusal(s, r.Header.Get(RefusalHeader))
}
