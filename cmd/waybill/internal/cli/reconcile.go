package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
	"waybill.dev/shared/rfc3339"
)

func (a *app) reconcile() *cobra.Command {
	var file string
	since := verb.NewValue(verb.Flag{Name: "since", Kind: verb.Past}, time.Now)
	cmd := a.feedCommand(verb.Verb{
		Name: "reconcile", Short: "Compare what a receiver has with a webhook's feed",
		Long: "Compares the ids that a receiver has, one a line, or JSON lines with id, with the\n" +
			"webhook's feed. It prints what the feed has and the file lacks (missing), and what\n" +
			"the file has and the feed does not (unknown): it may be older than what is kept.\n" +
			"The exit code is 1 if anything is missing.",
		Example: "  waybill webhooks reconcile 0198e5c2-… --against received.txt\n  waybill webhooks reconcile 0198e5c2-… --against - --since 24h -o json",
	}, func(ctx context.Context, r *feedReader, form output) (err error) {
		if file == "" {
			return usagef("--against is required")
		}
		var from time.Time
		if text := (&verb.Input{Values: []*verb.Value{since}}).Text("since"); text != "" {
			if from, err = time.Parse(time.RFC3339, text); err != nil {
				return usagef("--since must be a time, or how long ago")
			}
		}
		return a.compare(ctx, r, file, from, form)
	})
	cmd.Flags().StringVar(&file, "against", "", "`file` with the receiver's ids; -: standard input")
	cmd.Flags().VarPF(since, "since", "", "look only at events with this `time` or a later one, or how long ago, such as 24h")
	return cmd
}

// compare prints the differences between feed and file.
func (a *app) compare(ctx context.Context, feed *feedReader, file string, from time.Time, form output) (err error) {
	sets, err := newIDSets()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sets.remove()) }()
	if err := a.readIDs(file, func(id string) error { return sets.add(inFile, id) }); err != nil {
		return err
	}
	events := 0
	err = feed.each(ctx, func(e feedEvent) error {
		// An event with an unreadable time counts: a false report is better than a missing one.
		if at, ok := rfc3339.Parse(e.Timestamp); ok && at.Before(from) {
			return sets.add(tooEarly, e.ID)
		}
		events++
		return sets.add(inFeed, e.ID)
	})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the end of the feed")
	}
	missing, unknown := 0, 0
	err = sets.differ(func(id string, lacks bool) error {
		state := "unknown"
		if lacks {
			missing++
			state = "missing"
		} else {
			unknown++
		}
		if form == asJSON {
			return terminal.JSONLine(a.stdout, struct {
				ID    string `json:"id"`
				State string `json:"state"`
			}{id, state})
		}
		_, err := fmt.Fprintf(a.stdout, "%s  %s\n", state, terminal.Clean(id))
		return err
	})
	if err != nil {
		return err
	}
	a.note("The feed has %s: %d missing, %d unknown.", many(events, "event"), missing, unknown)
	if missing > 0 {
		return fmt.Errorf("%s missing", many(missing, "event"))
	}
	return nil
}

// maxIDLine bounds a line of the receiver's file.
const maxIDLine = 1 << 20

// readIDs calls take for each id in a file: a line that is the id, or the id in a line of JSON.
func (a *app) readIDs(name string, take func(id string) error) error {
	from := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open the receiver's ids: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxIDLine)
	for n := 1; lines.Scan(); n++ {
		id := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(id, "{") {
			var e struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal([]byte(id), &e); err != nil || e.ID == "" {
				return usagef("line %d of the file is JSON without an id", n)
			}
			id = e.ID
		}
		if id == "" {
			continue
		}
		if strings.ContainsAny(id, " \t") {
			return usagef("line %d of the file is no id", n)
		}
		if err := take(id); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the receiver's ids: %w", err)
	}
	return nil
}

// idParts is the number of files for the ids: only one part is in memory at a time, some megabytes
// for a hundred million ids.
const idParts = 256

// The lists of ids.
const (
	inFile   = iota
	inFeed   // in both, or only in the feed
	tooEarly // in the feed, but before the requested time
	idLists
)

// idSets are lists of ids on the disk, so that their number costs no memory.
type idSets struct {
	folder string
	files  [idLists][idParts]*os.File
	to     [idLists][idParts]*bufio.Writer
}

func newIDSets() (*idSets, error) {
	folder, err := os.MkdirTemp("", "waybill-reconcile-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for ids: %w", err)
	}
	return &idSets{folder: folder}, nil
}

func (s *idSets) remove() error {
	var all []error
	for _, files := range s.files {
		for _, file := range files {
			if file != nil {
				all = append(all, file.Close())
			}
		}
	}
	return errors.Join(append(all, os.RemoveAll(s.folder))...)
}

// add adds an id to a list.
func (s *idSets) add(list int, id string) error {
	h := fnv.New32a()
	_, _ = io.WriteString(h, id) // never fails
	part := h.Sum32() % idParts
	if s.files[list][part] == nil {
		file, err := os.Create(filepath.Join(s.folder, strconv.Itoa(list)+"-"+strconv.Itoa(int(part))))
		if err != nil {
			return fmt.Errorf("keep ids: %w", err)
		}
		s.files[list][part], s.to[list][part] = file, bufio.NewWriter(file)
	}
	if _, err := s.to[list][part].WriteString(id + "\n"); err != nil {
		return fmt.Errorf("keep ids: %w", err)
	}
	return nil
}

// read returns the ids of a part of a list.
func (s *idSets) read(list, part int) (map[string]struct{}, error) {
	ids := make(map[string]struct{})
	file := s.files[list][part]
	if file == nil {
		return ids, nil
	}
	if err := s.to[list][part].Flush(); err != nil {
		return nil, fmt.Errorf("keep ids: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxIDLine)
	for lines.Scan() {
		ids[lines.Text()] = struct{}{}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	return ids, nil
}

// differ calls tell for each id that is in the feed and not in the file, or the other way round.
func (s *idSets) differ(tell func(id string, lacks bool) error) error {
	for part := range idParts {
		var lists [idLists]map[string]struct{}
		for list := range lists {
			var err error
			if lists[list], err = s.read(list, part); err != nil {
				return err
			}
		}
		for id := range lists[inFeed] {
			if _, ok := lists[inFile][id]; ok {
				continue
			}
			if err := tell(id, true); err != nil {
				return err
			}
		}
		for id := range lists[inFile] {
			_, fed := lists[inFeed][id]
			_, left := lists[tooEarly][id]
			if fed || left {
				continue
			}
			if err := tell(id, false); err != nil {
				return err
			}
		}
	}
	return nil
}
