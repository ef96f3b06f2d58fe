package semaphore

import "github.com/baton-go/baton/coordinator/driver"

// For the tests of the rule and its model.
var (
	AskingMode  = askingMode
	HoldingMode = holdingMode
	SaysHeld    = saysHeld
	Permits     = permits
)

// Contention is a parsed mode.
type Contention struct {
	N       int
	Held    bool
	Version driver.Version
}

// ParseMode parses a mode.
func ParseMode(mode string) (c Contention, ok bool) {
	p, ok := parseMode(mode)
	return Contention{N: p.n, Held: p.held, Version: p.version}, ok
}
