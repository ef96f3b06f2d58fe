// Package hint adds to errors that people meet first what to try.
package hint

import (
	"fmt"
	"slices"
	"strings"
)

// network has the signs of what goes wrong with connections, whatever the
// service.
var network = []string{
	"connection refused", "check address and port, and that the server runs",
	"no such host", "check the host's name in the URL",
	"unknown authority", "name the file of the authority's certificate with cacert= in the URL",
	"certificate is valid for", otherName, "not valid for any names", otherName,
	"certificate required", noCertificate, "bad certificate", noCertificate,
	"handshake failed: EOF", notTLS, "does not look like a TLS handshake", notTLS,
}

const (
	otherName     = "give the name in the certificate with servername= in the URL"
	noCertificate = "give the client's certificate with cert= and key= in the URL"
	notTLS        = `if the port has no TLS, write the URL's scheme without "s"`
)

// On returns err with what to try, if its text has a known sign. After those of
// the network come pairs of a sign and what to try.
func On(err error, pairs ...string) error {
	if err == nil {
		return nil
	}
	pairs = slices.Concat(network, pairs)
	for i := 0; i < len(pairs); i += 2 {
		if strings.Contains(err.Error(), pairs[i]) {
			return fmt.Errorf("%w; %s", err, pairs[i+1])
		}
	}
	return err
}

// Shell quotes a word for a command that people copy.
func Shell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
