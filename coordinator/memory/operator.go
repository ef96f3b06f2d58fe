package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// Remove takes out an entry of whatever session, as [Service.Remove] does.
func (s *session) Remove(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	svc := s.driver.svc
	_, err := s.do(ctx, Request{Op: OpRemove, Line: line}, func(*call) error {
		e := svc.find(line, driver.Place{Key: key})
		if e == nil || e.Token != token {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		svc.erase(e)
		return nil
	})
	return err
}

// Lines are those that exist: a line does while it has entries.
func (s *session) Lines(ctx context.Context) ([]driver.Line, error) {
	var lines []driver.Line
	_, err := s.do(ctx, Request{Op: OpLines}, func(*call) error {
		lines = slices.Sorted(maps.Keys(s.driver.svc.lines))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}
