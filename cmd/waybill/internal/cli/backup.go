package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/backup"
)

func (a *app) backup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Write an all-in-one installation into one file while it runs",
		Long: "Writes the SQLite database and the keys of an all-in-one installation into one\n" +
			"file, while it runs. Whoever has the file can read all of it, secrets too: it\n" +
			"gets mode 0600. The bus needs no backup. For Postgres see docs/backup.md.",
		Example: "  waybill backup\n  waybill backup /var/backups/waybill.tar --data /var/lib/waybill",
		Args:    cobra.MaximumNArgs(1),
	}
	load := addSettings(cmd, settings.Backup)
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		set, err := load()
		if err != nil {
			return err
		}
		to := "waybill-" + time.Now().UTC().Format("20060102T150405Z") + ".tar"
		if len(args) == 1 {
			to = args[0]
		}
		from, err := a.source(set)
		if err != nil {
			return err
		}
		from.Logger = telemetry.NewLogger(a.stderr, set.LogLevel, set.LogFormat)
		made, err := backup.Write(cmd.Context(), from, to)
		if err != nil {
			return err
		}
		if err := a.printManifest(*form, to, made); err != nil {
			return err
		}
		if !made.Has(datadir.EncryptionKey) {
			a.note("The encryption key is not in the backup, because it is not in %s. Without the\nkey that is in %s now, no secret of the backup can be read. Keep it.", set.DataDir, settings.EncryptionKey)
		}
		return nil
	})
	return cmd
}

// source returns the installation of the settings as the source of a backup.
func (a *app) source(set settings.Settings) (backup.Source, error) {
	from := backup.Source{Dir: set.DataDir, DatabaseURL: set.DatabaseURL.Reveal(), Version: a.version}
	if from.DatabaseURL == "" {
		from.DatabaseURL = "sqlite:" + filepath.Join(set.DataDir, datadir.Database)
	}
	file, lite := strings.CutPrefix(from.DatabaseURL, "sqlite:")
	if !lite {
		return from, fmt.Errorf("%s is not an SQLite file: back Postgres up with its own tools, as docs/backup.md says", settings.DatabaseURL)
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return from, fmt.Errorf("there is no database %s: name the data directory with --data", file)
	}
	for _, name := range []string{datadir.EncryptionKey, datadir.AdminKey} {
		if name == datadir.EncryptionKey && set.EncryptionKey != "" {
			continue // the settings give the encryption key, so a key file in the data directory is not in use
		}
		if _, err := os.Stat(filepath.Join(set.DataDir, name)); err == nil {
			from.Keys = append(from.Keys, name)
		}
	}
	return from, nil
}

func (a *app) restore() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make an all-in-one installation of a backup",
		Long: "Makes an installation of a file of `waybill backup`, in a data directory that is\n" +
			"missing or empty. Sums and versions are checked first. Then start it with\n" +
			"`waybill dev`: its bus is empty, and everything that had been accepted and not\n" +
			"delivered when the backup was made is delivered.",
		Example: "  waybill restore waybill-20261125T030000Z.tar --data /var/lib/waybill",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&data, "data", defaultData, "data `directory` to make")
	setVariable(cmd.Flags(), "data", settings.DataDir)
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		log := telemetry.NewLogger(a.stderr, 0, "auto")
		made, err := backup.Restore(cmd.Context(), args[0], data, log)
		if err != nil {
			return err
		}
		if err := a.printManifest(*form, args[0], made); err != nil {
			return err
		}
		if !made.Has(datadir.EncryptionKey) {
			a.note("The encryption key is not in the backup. Set %s to the one of that time.", settings.EncryptionKey)
		}
		where := ""
		if data != defaultData {
			where = " --data " + quote(data)
		}
		a.note("Restored to %s. What was sent after the backup may be sent again, with the same\nwebhook-id. Start it with: %s dev%s", terminal.Clean(data), a.binary, where)
		return nil
	})
	return cmd
}

func (a *app) printManifest(form output, path string, m backup.Manifest) error {
	if form == asJSON {
		return terminal.JSON(a.stdout, struct {
			File string `json:"file"`
			backup.Manifest
		}{path, m})
	}
	fmt.Fprintf(a.stdout, "%s  %s, waybill %s, migration %d\n",
		a.style().Bold(terminal.Clean(path)), m.CreatedAt.Format(time.RFC3339), terminal.Clean(m.Waybill), m.Migration)
	var rows [][]string
	for _, f := range m.Files {
		rows = append(rows, []string{f.Name, terminal.Size(f.Size), f.SHA256[:12] + "…"})
	}
	terminal.Table(a.stdout, []string{"FILE", "SIZE", "SHA-256"}, rows)
	return nil
}
