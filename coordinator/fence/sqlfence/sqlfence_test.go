package sqlfence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence/sqlfence"
)

// What the guard does is tested on real databases, in integration.

func TestOddTablesAreRefused(t *testing.T) {
	for _, table := range []string{"", "a b", "a;b", "a.b.c", ".a", "a.", "1a", `"a"`, "a-b", "ä", "a\n"} {
		if g, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.Table(table)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v, %v", table, g, err)
		}
	}
	for _, d := range []sqlfence.Dialect{-1, 0, 4} {
		if g, err := sqlfence.New(d); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("dialect %d: %v, %v", d, g, err)
		}
	}
	if _, err := sqlfence.New(sqlfence.SQLite, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil option: %v", err)
	}
}

func TestSchemaNamesTheTable(t *testing.T) {
	for _, d := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		for table, opts := range map[string][]sqlfence.Option{"baton_fence": nil, "fencing.tokens_1": {sqlfence.Table("fencing.tokens_1")}} {
			g, err := sqlfence.New(d, opts...)
			if err != nil {
				t.Fatal(err)
			}
			if s := g.Schema(); !strings.HasPrefix(s, "CREATE TABLE IF NOT EXISTS "+table+" (") || strings.Contains(s, "TABLE_NAME") {
				t.Errorf("dialect %d: %s", d, s)
			}
		}
	}
}
