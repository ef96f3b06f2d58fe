package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/baton-go/baton/internal/engine"
)

// This file prints texts that come from the service, so from anyone who may
// write to a queue: none of them may command the terminal, or forge a line.

// answer is the standard output. It keeps the first error, so that no command
// reports success when its answer is incomplete, as on a full disk.
type answer struct {
	w   io.Writer
	err error
}

func (a *answer) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if a.err == nil {
		a.err = err
	}
	return n, err
}

// printable quotes a text that has characters which a terminal does not show.
func printable(s string) string { return engine.Printable(s) }

// line returns a text as one line, in which such characters are escaped.
func line(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ") {
		switch quoted := fmt.Sprintf("%q", r); {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// encode prints a value as JSON on one line, or indented. Package json escapes
// less than a terminal needs: not the control characters from U+007F on, nor
// those that change the direction of writing. Outside of strings JSON is ASCII.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var safe strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			safe.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&safe, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	_, err := io.WriteString(w, safe.String())
	return err
}
