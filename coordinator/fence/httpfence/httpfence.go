// Package httpfence carries sequencers in HTTP requests, and makes servers
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
// The handler checks before a request is served. While it is being served the
// lock may pass to another holder, whose request is then served beside it.
// Where that matters do the work in the gate's Do, or guard its transaction
// with package sqlfence: fence.From(r.Context()) returns the sequencer that was
// shown, and Refuse answers with their error.
package httpfence

import (
	"errors"
	"net/http"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Header carries the sequencer of a request.
const Header = "Baton-Sequencer"

// RefusalHeader says in a response why the sequencer was refused, in the words
// of fence.EncodeRefusal.
const RefusalHeader = "Baton-Refusal"

// Transport returns a RoundTripper that shows the sequencer in a request's
// context (see fence.With) to the server, if there is one, and leaves the rest
// to base: http.DefaultTransport if that is nil.
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

// Handler returns a handler that calls check for each request, and then next
// with the sequencer in the request's context. A request that is not admitted
// is answered by Refuse.
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

// Refuse answers a request with why a check did not admit its sequencer:
//
//	428 Precondition Required  there is none
//	400 Bad Request            it is malformed, or there are several
//	412 Precondition Failed    it is stale or foreign; the client calls Refusal
//	503 Service Unavailable    the check failed for another reason, which is not shown
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
// *fence.ForeignError of the server's check, for the sequencer in the context
// of the request; fence.ErrMissing if the server wants one; and nil for any
// other response. It leaves the body alone.
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
