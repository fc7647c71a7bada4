package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
)

// disk is an ext4 file system in a file. A power cut is a copy of the file that is taken
// while everything above stands still: what is in the copy is what a disk would hold.
// The journal is not flushed by itself for five minutes, so nothing but the programs' own
// syncing puts data there.
type disk struct {
	image string
	mount string
	cuts  int
}

const diskSize = 4 << 30 // sparse

func newDisk(ctx context.Context, dir string) (*disk, error) {
	d := &disk{image: filepath.Join(dir, "disk.img"), mount: filepath.Join(dir, "disk")}
	if err := os.MkdirAll(d.mount, 0o755); err != nil {
		return nil, fmt.Errorf("make mount point: %w", err)
	}
	file, err := os.Create(d.image)
	if err != nil {
		return nil, fmt.Errorf("make disk image: %w", err)
	}
	defer file.Close()
	if err := file.Truncate(diskSize); err != nil {
		return nil, fmt.Errorf("size disk image: %w", err)
	}
	if err := command(ctx, "mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	if err := d.attach(ctx); err != nil {
		return nil, err
	}
	// Postgres runs as another user.
	if err := os.Chmod(d.mount, 0o755); err != nil {
		return nil, fmt.Errorf("open the disk to Postgres: %w", err)
	}
	return d, nil
}

func (d *disk) attach(ctx context.Context) error {
	return command(ctx, "mount", "-o", "loop,commit=300", d.image, d.mount)
}

// detach unmounts the disk; who was just killed may still hold it for a moment.
func (d *disk) detach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := command(ctx, "umount", d.mount)
		if err == nil {
			return nil
		}
		if waitErr := wait(ctx, 50*time.Millisecond, 100*time.Millisecond); waitErr != nil {
			return errors.Join(err, waitErr)
		}
	}
}

// snapshot copies the image as it is now.
func (d *disk) snapshot(ctx context.Context) (string, error) {
	d.cuts++
	image := filepath.Join(filepath.Dir(d.image), fmt.Sprintf("cut-%d.img", d.cuts))
	return image, command(ctx, "cp", "--sparse=always", d.image, image)
}

// replace puts an image in the place of the disk's, which must be detached.
func (d *disk) replace(image string) error {
	if err := os.Rename(image, d.image); err != nil {
		return fmt.Errorf("replace disk image: %w", err)
	}
	return nil
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// onDisk runs a form with its data on a disk of its own, under load.
func (b *bench) onDisk(ctx context.Context, start form, postgresSettings []string, then func(*field, *disk) error) error {
	return b.withDisk(ctx, func(d *disk) error {
		f, err := b.field(ctx, start, stack.Options{Data: d.mount, PostgresSettings: postgresSettings})
		if err != nil {
			return err
		}
		defer f.close()
		f.inFlightFor = recordedWithin
		syscall.Sync() // what was made at the start is not what is tried here
		f.load.start(ctx, b.rate, b.busRate)
		return then(f, d)
	})
}

// withDisk makes a disk for as long as do runs.
func (b *bench) withDisk(ctx context.Context, do func(*disk) error) error {
	dir, err := os.MkdirTemp(b.dir, "power-")
	if err != nil {
		return fmt.Errorf("make folder of the disk: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open folder of the disk: %w", err)
	}
	d, err := newDisk(ctx, dir)
	if err != nil {
		return fmt.Errorf("a disk can't be made here (root and a loop device are needed): %w", err)
	}
	defer func() {
		ending := context.WithoutCancel(ctx)
		if err := d.detach(ending); err != nil {
			b.report.fail("unmount at the end: %v", err)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	return do(d)
}

// powerCuts cuts the power again and again. Everything that REST accepted must still
// arrive. What was published straight to NATS is as durable as the stream: what is lost of
// it is counted, and judged by nobody.
func powerCuts(start form) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		return b.onDisk(ctx, start, nil, func(f *field, d *disk) error {
			missing, err := f.cuts(ctx, d, max(1, b.rounds/2), 2*time.Second)
			if err != nil {
				return err
			}
			f.report.must(missing == 0, "%d accepted events were not in the database after a cut", missing)
			if err := wait(ctx, 2*time.Second, 3*time.Second); err != nil {
				return err
			}
			f.busMayLose = true
			return f.finish(ctx)
		})
	}
}

// powerCutControl shows that the harness can lose: Postgres confirms commits that are not
// on disk. A run of it that loses nothing proves nothing.
func powerCutControl(ctx context.Context, b *bench) error {
	settings := []string{"synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB"}
	return b.onDisk(ctx, split, settings, func(f *field, d *disk) error {
		missing, err := f.cuts(ctx, d, 3, 3*time.Second)
		if err != nil {
			return err
		}
		f.report.must(missing > 0, "nothing was lost with synchronous_commit=off: the harness does not cut")
		f.report.must(len(f.load.restAccepted()) > 0, "nothing was accepted")
		return nil
	})
}

// cuts takes the power away so many times, after a while each, and returns how many accepted events
// were not in the database after a cut.
func (f *field) cuts(ctx context.Context, d *disk, rounds int, least time.Duration) (missing int, err error) {
	for round := range rounds {
		if err := wait(ctx, least, 8*time.Second); err != nil {
			return 0, err
		}
		n, err := f.cut(ctx, d)
		if err != nil {
			return 0, fmt.Errorf("cut %d: %w", round+1, err)
		}
		missing += n
	}
	f.report.figure(figureRounds, float64(rounds))
	f.report.figure("accepted and not in the database after a cut", float64(missing))
	return missing, nil
}

// lookedUp is how many of the events accepted last before a cut are looked up in the
// database after it.
const lookedUp = 1000

// cut cuts the power and starts everything again on what the disk holds. It returns how
// many of the events that were accepted in the seconds before are not in the database.
func (f *field) cut(ctx context.Context, d *disk) (missing int, err error) {
	from := time.Now()
	thaw, err := f.freeze()
	if err != nil {
		return 0, err
	}
	image, err := d.snapshot(ctx)
	// All answers that were sent before the freeze have been read by now.
	newest := f.load.newestAccepted(lookedUp)
	if err != nil {
		thaw()
		return 0, err
	}
	if err := f.killFrozen(); err != nil {
		return 0, err
	}
	if err := d.detach(ctx); err != nil {
		return 0, err
	}
	if err := d.replace(image); err != nil {
		return 0, err
	}
	if err := d.attach(ctx); err != nil {
		return 0, err
	}
	if err := f.startAgain(ctx); err != nil {
		return 0, err
	}
	f.faults = append(f.faults, span{from, time.Now()})
	missing, err = f.missing(ctx, newest)
	f.say("cut: of the %d events accepted last %d are not in the database", len(newest), missing)
	return missing, err
}

// missing counts the events that the API does not know.
func (f *field) missing(ctx context.Context, ids []string) (int, error) {
	var n atomic.Int64
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(16)
	for _, id := range ids {
		asking.Go(func() error {
			var known bool
			err := stack.Await(ctx, func() (bool, error) {
				var err error
				known, err = f.api.HasEvent(ctx, id)
				// A machine that has just started is busy.
				return err == nil, ignore(err, http.StatusServiceUnavailable)
			})
			if err != nil {
				return fmt.Errorf("look an event up: %w", err)
			}
			if !known {
				n.Add(1)
			}
			return nil
		})
	}
	err := asking.Wait()
	return int(n.Load()), err
}

// ignore returns err unless it is the API's answer with that status.
func ignore(err error, status int) error {
	if client.IsStatus(err, status) {
		return nil
	}
	return err
}

// freeze stops the clock of every process, Postgres' children included.
func (f *field) freeze() (thaw func(), err error) {
	var frozen []int
	thaw = func() {
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	for _, pid := range f.pids() {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			thaw()
			return nil, fmt.Errorf("freeze: %w", err)
		}
		frozen = append(frozen, pid)
	}
	f.frozen = frozen
	return thaw, nil
}

// pids are the processes of the stack; the postmaster comes before its children, so that
// it makes no more of them.
func (f *field) pids() []int {
	var list []int
	for _, p := range f.stack.Processes() {
		if pid := p.Pid(); pid != 0 {
			list = append(list, pid)
		}
	}
	if f.stack.Postgres != nil {
		if pid := f.stack.Postgres.Pid(); pid != 0 {
			list = append(append(list, pid), children(pid)...)
		}
	}
	return list
}

// children returns the processes whose parent is pid.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var list []int
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// «pid (name) state parent …», where the name may have spaces and brackets.
		i := bytes.LastIndexByte(text, ')')
		var state string
		var child, parent int
		if i < 0 {
			continue
		}
		if _, err := fmt.Sscanf(string(text[i+1:]), "%s %d", &state, &parent); err != nil || parent != pid {
			continue
		}
		if _, err := fmt.Sscanf(string(text), "%d", &child); err == nil {
			list = append(list, child)
		}
	}
	return list
}

// killFrozen kills everything that was frozen.
func (f *field) killFrozen() error {
	for _, pid := range f.frozen {
		if !slices.ContainsFunc(f.stack.Processes(), func(p *stack.Process) bool { return p.Pid() == pid }) &&
			f.stack.Postgres != nil && pid != f.stack.Postgres.Pid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // a child of the postmaster
		}
	}
	if f.stack.Postgres != nil {
		if err := f.stack.Postgres.Kill(); err != nil {
			return fmt.Errorf("kill Postgres: %w", err)
		}
	}
	for _, p := range f.stack.Processes() {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// startAgain starts what a machine starts after its boot.
func (f *field) startAgain(ctx context.Context) error {
	if f.stack.Postgres != nil {
		if err := postgres(f.stack).start(ctx); err != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
	}
	for _, p := range f.stack.Processes() {
		if err := p.Launch(); err != nil {
			return err
		}
	}
	for _, p := range f.stack.Processes() {
		if err := p.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}
