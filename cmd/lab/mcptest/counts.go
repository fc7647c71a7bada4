package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// counts are the checks of a run of the suite, by how they ended.
type counts struct {
	scenarios int
	checks    map[string]int
}

func (c counts) String() string {
	return fmt.Sprintf("%d scenarios: %d checks passed; of those that the baseline names, and of the unscored: %d failed, %d warned; %d do not apply",
		c.scenarios, c.checks["SUCCESS"], c.checks["FAILURE"], c.checks["WARNING"], c.checks["SKIPPED"])
}

// readCounts reads the results of a run. A run that checked nothing is an error.
func readCounts(results string) (counts, error) {
	files, err := filepath.Glob(filepath.Join(results, "server-*", "checks.json"))
	if err != nil {
		return counts{}, fmt.Errorf("find the results: %w", err)
	}
	c := counts{checks: map[string]int{}}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return counts{}, fmt.Errorf("read results: %w", err)
		}
		var checks []struct{ Status string }
		if err := json.Unmarshal(raw, &checks); err != nil {
			return counts{}, fmt.Errorf("read results of %s: %w", filepath.Base(filepath.Dir(file)), err)
		}
		c.scenarios++
		for _, check := range checks {
			c.checks[strings.ToUpper(check.Status)]++
		}
	}
	if c.checks["SUCCESS"] == 0 {
		return counts{}, errors.New("the suite checked nothing")
	}
	return c, nil
}
