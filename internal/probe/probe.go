// Package probe answers the probes of an orchestrator over HTTP.
package probe

import (
	"io"
	"net/http"
)

// Handler returns a handler that answers 200 if check says ok, else 503, with
// its text. It serves GET and HEAD.
func Handler(check func() (ok bool, text string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		ok, text := check()
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("X-Content-Type-Options", "nosniff")
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, text+"\n")
		}
	})
}
