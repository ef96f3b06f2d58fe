// Package hint says what to try about the errors that people meet first.
package hint

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// network has signs of what goes wrong with connections, and what to try.
var network = []string{
	"connection refused", "check address and port, and that the server runs",
	"actively refused it", "check address and port, and that the server runs", // on Windows
	"no such host", "check the host's name in the URL",
	"unknown authority", "name the authority's certificate with cacert= in the URL",
	"certificate is valid for", "give the name in it with servername= in the URL",
	"not valid for any names", "give the name in it with servername= in the URL",
	"remote error: tls", "give a client's certificate with cert= and key= in the URL",
	"handshake failed: EOF", `if the port has no TLS, write the URL's scheme without "s"`,
}

// On adds to err what to try, if its text has one of the signs of the network,
// or else one of pairs.
func On(err error, pairs ...string) error {
	pairs = slices.Concat(network, pairs)
	for i := 0; err != nil && i < len(pairs); i += 2 {
		if strings.Contains(err.Error(), pairs[i]) {
			return fmt.Errorf("%w; %s", err, pairs[i+1])
		}
	}
	return err
}

// Stray returns the text of driver.Entry.Stray: empty if a session owns the
// entry, else what it is and the command that removes it.
func Stray(owned bool, command, entry string) string {
	if owned {
		return ""
	}
	return "an entry of no session, which stays until it is removed: " + Removal(command, "", entry)
}

const mostRemovals = 10

// OfZooKeeper says what to find out before a node is removed.
const OfZooKeeper = "a node with children, or with an ephemeralOwner (zkCli.sh stat), belongs to a " +
	"program that may hold a lock; to remove the others: "

// Removal returns the shell commands that remove the first ten entries below
// dir.
func Removal(command, dir string, entries ...string) string {
	all := slices.Sorted(slices.Values(entries))
	all = all[:min(len(all), mostRemovals)]
	for i, e := range all {
		all[i] = removal(command, dir+e)
	}
	return strings.Join(all, "; ")
}

// longestName is that of a name that is shown in full.
const longestName = 600

// removal returns the command for one entry, or a sentence.
func removal(command, name string) string {
	if quoted, ok := quote(name); ok {
		return command + " " + quoted
	}
	return "a program has to remove the one that is named, percent-encoded, " + encoded(name)
}

// Argument returns a name as the last argument of a command that a user may
// paste into a shell, or words that name it, which no shell accepts.
func Argument(name string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("/-_.:@%+=,", r)
	}
	quoted, ok := quote(name)
	switch {
	case !ok:
		return "NAME (percent-encoded: " + encoded(name) + ")"
	case strings.HasPrefix(name, "-"):
		return "-- " + quoted
	case name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }):
		return name
	}
	return quoted
}

// quote returns a name in single quotes, unless a shell could run a part of it,
// which others may have chosen: single quotes keep all but themselves, but a
// logger or terminal may quote the text again, in double quotes and with more
// backslashes.
func quote(name string) (quoted string, ok bool) {
	special := func(r rune) bool {
		return strings.ContainsRune("'\"\\$`", r) || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	if len(name) > longestName || strings.ContainsFunc(name, special) {
		return "", false
	}
	return "'" + name + "'", true
}

// encoded returns a name percent-encoded and shortened.
func encoded(name string) string {
	shown, rest := name, ""
	if len(name) > longestName/3 { // encoded it is three times as long
		shown, rest = name[:longestName/3], "..."
	}
	return strings.ReplaceAll(url.QueryEscape(shown), "+", "%20") + rest
}
