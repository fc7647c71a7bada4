package natsd

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// heal removes state files of consumers that contain only zeros. A power cut leaves such files,
// because the server does not force them to disk. The server can't read them, and does not recreate
// their consumers. A consumer without a state file gets all messages of its stream again.
func heal(dir string, log *slog.Logger) error {
	states, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "obs", "*", "o.dat"))
	if err != nil {
		return fmt.Errorf("look for consumers: %w", err)
	}
	for _, path := range states {
		state, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the state of a consumer: %w", err)
		}
		if len(bytes.Trim(state, "\x00")) > 0 {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the state of a consumer: %w", err)
		}
		log.Warn("state of a NATS consumer was lost in a power cut; its messages come again", "consumer", filepath.Base(filepath.Dir(path)))
	}
	return nil
}
