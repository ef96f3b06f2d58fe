package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/internal/engine"
)

// migrating bounds a migration, which waits for locks of others.
const migrating = time.Minute

func (a *app) migrate() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate [URL]",
		Short: "Create Baton's tables in a database",
		Long: `Creates Baton's tables and routines in a PostgreSQL, MySQL or MariaDB database, in the user's
default schema. If they exist, it changes nothing: run it before each deployment. Tables of another
version are refused. It waits for a minute at most.

The user in URL (by default --url or BATON_URL) needs the right to create. Your services' users need
SELECT, INSERT, UPDATE and DELETE on baton_*, and EXECUTE. etcd, ZooKeeper and Redis need no
preparation.`,
		Example: `  BATON_URL=postgres://owner:secret@db:5432/app baton migrate`,
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				a.url = args[0]
			}
			return a.createTables(cmd.Context())
		},
	}
}

// createTables creates the tables of the service.
func (a *app) createTables(ctx context.Context) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	defer finish(c)
	database, ok := engine.Of(c).Driver().(interface {
		Migrate(ctx context.Context) (created bool, err error)
	})
	if !ok {
		return usage(fmt.Errorf("%s needs no tables; want postgres://, postgresql:// or mysql://", c))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, migrating, fmt.Errorf("no answer within %v", migrating))
	defer cancel()
	created, err := database.Migrate(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if created {
		fmt.Fprintf(a.answer, "created: Baton's tables in %s\n", c)
	} else {
		fmt.Fprintf(a.answer, "nothing to do: %s has Baton's tables\n", c)
	}
	return nil
}
