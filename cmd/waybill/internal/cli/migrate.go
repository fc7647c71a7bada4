package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/store"
)

func (a *app) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "migrate",
		Short:   "Bring a database to the current schema",
		Example: "  waybill migrate status\n  waybill migrate up --database-url postgres://waybill@localhost/waybill",
		RunE:    subcommands,
	}
	up := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are pending",
		Long: "Applies the migrations that are pending. You may start the command several times\n" +
			"at once: one of them works, the others wait.",
		Example: "  waybill migrate up --database-url postgres://waybill@localhost/waybill",
		Args:    cobra.NoArgs,
	}
	a.migration(up, func(ctx context.Context, s *store.Store) ([]store.Migration, error) { return s.Migrate(ctx) },
		"Nothing was pending.")
	status := &cobra.Command{
		Use:     "status",
		Short:   "List the migrations, applied and pending",
		Example: "  waybill migrate status -o json",
		Args:    cobra.NoArgs,
	}
	a.migration(status, func(ctx context.Context, s *store.Store) ([]store.Migration, error) { return s.MigrationStatus(ctx) },
		"There are no migrations.")
	cmd.AddCommand(up, status, a.restored())
	return cmd
}

// restored prepares a Postgres database that was restored by Postgres's own tools.
func (a *app) restored() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restored",
		Short: "Ready a database that was restored, before Waybill starts",
		Long: "Run this once after each restore of a Postgres database, before Waybill starts\n" +
			"on it: by pg_restore, from a copy of files, or to a point in time. Transactions\n" +
			"in a restored database have numbers that were given before. This puts new ones\n" +
			"above them, so feeds skip nothing and every cursor stays good.\n" +
			"`waybill restore` does this by itself.",
		Example: "  waybill migrate restored --database-url postgres://waybill@localhost/waybill",
		Args:    cobra.NoArgs,
	}
	load := addSettings(cmd, settings.Migrate)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		set, err := load()
		if err != nil {
			return err
		}
		s, err := a.openToMigrate(cmd.Context(), set)
		if err != nil {
			return err
		}
		err = s.Restored(cmd.Context())
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
		a.note("The database is ready. Start Waybill on it.")
		return nil
	})
	return cmd
}

// connectTimeout is how long a command waits for a connection to the database. A service waits for
// one second, because its callers are waiting. A command has time for a busy database.
const connectTimeout = 10 * time.Second

func (a *app) openToMigrate(ctx context.Context, set settings.Settings) (*store.Store, error) {
	return store.Open(ctx, store.Options{
		URL: set.DatabaseURL.Reveal(), ConnectTimeout: connectTimeout, Logger: telemetry.NewLogger(a.stderr, set.LogLevel, set.LogFormat),
	})
}

type migrationLine struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"appliedAt"`
}

// migration makes cmd print the results of work; none is printed if there are none.
func (a *app) migration(cmd *cobra.Command, work func(context.Context, *store.Store) ([]store.Migration, error), none string) {
	load := addSettings(cmd, settings.Migrate)
	form := addForms(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		set, err := load()
		if err != nil {
			return err
		}
		s, err := a.openToMigrate(cmd.Context(), set)
		if err != nil {
			return err
		}
		defer s.Close()
		list, err := work(cmd.Context(), s)
		if err != nil {
			return err
		}
		return a.printMigrations(list, *form, none)
	})
}

func (a *app) printMigrations(list []store.Migration, form output, none string) error {
	lines := []migrationLine{}
	var rows [][]string
	for _, m := range list {
		line := migrationLine{Version: m.Version, Name: m.Name}
		applied := "pending"
		if !m.AppliedAt.IsZero() {
			at := m.AppliedAt.UTC()
			line.AppliedAt, applied = &at, at.Format(time.RFC3339)
		}
		lines = append(lines, line)
		rows = append(rows, []string{m.Name, applied})
	}
	if form == asJSON {
		return terminal.JSON(a.stdout, lines)
	}
	if len(rows) == 0 {
		a.note("%s", none)
		return nil
	}
	terminal.Table(a.stdout, []string{"MIGRATION", "APPLIED"}, rows)
	return nil
}
