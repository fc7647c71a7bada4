package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// BaseBackup copies the files of the running cluster to dir with pg_basebackup. Start starts the copy.
func (c *Cluster) BaseBackup(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the copy: %w", err)
	}
	if err := handOver(dir); err != nil {
		return err
	}
	backup := c.command(ctx, "pg_basebackup", "-D", filepath.Join(dir, "data"), "-h", "127.0.0.1", "-p", strconv.Itoa(c.port),
		"-U", superuser, "-X", "stream", "-c", "fast", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, tail(out))
	}
	return nil
}

// Recover makes Start recover the copy in dir, from the archive, up to the point in its settings.
func Recover(dir string) error {
	path := filepath.Join(dir, "data", "recovery.signal")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("ask for recovery: %w", err)
	}
	return handOver(path)
}

// handOver gives a file to the user as which the server runs.
func handOver(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		return fmt.Errorf("hand %s to nobody: %w", path, err)
	}
	return nil
}
