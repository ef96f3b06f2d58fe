package coordinator

import "github.com/baton-go/baton/coordinator/driver"

// Token is the fencing token of a grant: see [driver.Token].
type Token = driver.Token

// ParseToken reads what Token.String wrote. Anything but a positive number in
// its shortest form is ErrInvalid.
func ParseToken(s string) (Token, error) { return driver.ParseToken(s) }
