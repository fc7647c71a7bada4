package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/units"
)

// A disk with less free space than this is reported.
const (
	littleSpace, tooLittleSpace = 2 << 30, 200 << 20
	littleShare                 = 0.1
)

// folders returns the folders on this machine in which this installation keeps data.
func (s *site) folders() []string {
	var list []string
	add := func(dir string) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	if path, ok := s.sqliteFile(); ok {
		add(filepath.Dir(path))
	}
	if s.Settings.Role == settings.Dev {
		add(filepath.Clean(s.Settings.DataDir))
	}
	return list
}

const elsewhere = "this installation keeps no data on this machine; look at the disks of Postgres and nats-server"

func (s *site) checkSpace(context.Context) []judge.Finding {
	var found []judge.Finding
	for _, dir := range s.folders() {
		free, total, ok := datadir.Space(dir)
		if !ok {
			found = append(found, finding.None("the free space of "+dir+" is not known here"))
			continue
		}
		found = append(found, space(dir, free, total))
	}
	if len(found) == 0 {
		return one(finding.None(elsewhere))
	}
	return found
}

func space(dir string, free, total int64) judge.Finding {
	text := fmt.Sprintf("%s of %s are free for %s", terminal.Size(free), terminal.Size(total), dir)
	const do = "free some, or shorten " + settings.Retention + " and " + settings.BusMaxBytes
	switch {
	case free < tooLittleSpace:
		return judge.Bad(text, "On a full disk nothing can be accepted.", do)
	case free < littleSpace || float64(free) < littleShare*float64(total):
		return judge.Warn(text, "The disk is almost full.", do)
	}
	return judge.Good(text, "There is room.")
}

// How the disk is measured: with a few small writes, each forced to disk, like each commit.
const (
	measured          = 8
	slowSync, badSync = 20 * time.Millisecond, 250 * time.Millisecond
)

func (s *site) checkSpeed(ctx context.Context) []judge.Finding {
	path, ok := s.sqliteFile()
	if !ok {
		return one(finding.None("Postgres has its own disk; see the answer time of the database"))
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return one(finding.None("there is no folder " + dir))
	}
	took, err := measure(ctx, dir)
	if err != nil {
		return one(judge.Bad("can't write to "+dir+": "+reason(err), "Nothing can be accepted there, unless this user alone may not write.", "run this as the user of Waybill, or correct the rights of the folder"))
	}
	text := fmt.Sprintf("a synced write takes %s, the slowest of %d took %s", units.Duration(took[measured/2]), measured, units.Duration(took[measured-1]))
	switch {
	case took[measured/2] > badSync:
		return one(judge.Bad(text, "Each commit waits for the disk, so publishing is very slow.", "look at what else writes to this disk, and at its health"))
	case took[measured/2] > slowSync:
		return one(judge.Warn(text, "Each commit waits for the disk, so publishing is slow.", "use a disk that syncs faster, or look at what else writes to it"))
	}
	return one(judge.Good(text, "Commits are quick."))
}

// measure writes to a temporary file and returns the durations, the shortest first.
func measure(ctx context.Context, dir string) (took []time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".waybill-doctor-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 4096)
	for range measured {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := file.Write(page); err != nil {
			return nil, err
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}
