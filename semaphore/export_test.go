package semaphore

import "github.com/baton-go/baton/coordinator/driver"

// What the tests of the rule and its model use.
var (
	AskingMode  = askingMode
	HoldingMode = holdingMode
	SaysHeld    = saysHeld
	Permits     = permits
)

// Contention is what a mode says of a contender.
type Contention struct {
	N       int
	Held    bool
	Version driver.Version
}

// ParseMode reads a mode.
func ParseMode(mode string) (c Contention, ok bool) {
	p, ok := parseMode(mode)
	return Contention{N: p.n, Held: p.held, Version: p.version}, ok
}
