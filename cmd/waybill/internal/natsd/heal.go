package natsd

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// heal removes the states of consumers that a power cut has left as zeros: the server writes
// them without forcing them to the disk, and refuses for ever to make a consumer whose state
// it can't read. A consumer without a state gets all that is in its stream again.
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
