package memory

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// Check looks for one entry. Its key has been used for no other, so the token is compared for the caller's sake: one that
// is wrong was forged.
func (s *session) Check(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	_, err := s.do(ctx, Request{Op: OpCheck, Line: line}, func(*call) error {
		if e := s.driver.svc.find(line, driver.Place{Key: key}); e == nil || e.Token != token {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		return nil
	})
	return err
}
