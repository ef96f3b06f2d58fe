package virtualzk

import (
	"crypto/sha1"
	"encoding/base64"
	"slices"
	"strings"
)

// Permissions.
const (
	permRead   int32 = 1
	permWrite  int32 = 2
	permCreate int32 = 4
	permDelete int32 = 8
	permAll    int32 = 31
)

// identity is who a client is, or whom a permission is for.
type identity struct{ scheme, id string }

type acl struct {
	perms int32
	who   identity
}

var (
	world  = identity{"world", "anyone"}
	anyone = []acl{{permAll, world}}
	super  = identity{"super", ""} // may do everything
)

// digest is the identity of a user with a password.
func digest(userPassword string) identity {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return identity{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// allows reports whether one of the identities has a permission.
func allows(list []acl, perm int32, who []identity) bool {
	return slices.Contains(who, super) || slices.ContainsFunc(list, func(a acl) bool {
		return a.perms&perm != 0 && (a.who == world || slices.Contains(who, a.who))
	})
}

func (d *decoder) acls() []acl {
	var list []acl
	for n := d.int32(); n > 0 && !d.bad; n-- {
		list = append(list, acl{d.int32(), identity{d.text(), d.text()}})
	}
	return list
}

// resolve replaces the scheme "auth" by the identities of the client. It
// returns nil if the list is not valid.
func resolve(list []acl, who []identity) (resolved []acl) {
	add := func(a acl) {
		if !slices.Contains(resolved, a) {
			resolved = append(resolved, a)
		}
	}
	for _, a := range list {
		switch {
		case a.who == world:
			add(a)
		case a.who.scheme == "auth":
			if len(who) == 0 {
				return nil
			}
			for _, w := range who {
				add(acl{a.perms, w})
			}
		case a.who.scheme == "digest" && strings.Count(a.who.id, ":") == 1:
			add(a)
		default:
			return nil
		}
	}
	return resolved
}
