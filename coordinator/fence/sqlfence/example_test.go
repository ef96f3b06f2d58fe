package sqlfence_test

import (
	"context"
	"database/sql"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/sqlfence"
)

// A stale holder cannot commit this transaction. The example has no output: it
// needs a database.
func Example() {
	pay := func(ctx context.Context, db *sql.DB, seq fence.Sequencer) error {
		guard, err := sqlfence.New(sqlfence.PostgreSQL)
		if err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := guard.Check(ctx, tx, "orders", seq); err != nil {
			return err // a *fence.StaleError names both tokens
		}
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'paid' WHERE id = 42`); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = pay
}
