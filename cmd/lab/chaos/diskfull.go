package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/pgtest"
)

// What has a disk to itself, which becomes full.
const (
	databaseDisk = "database"
	busDisk      = "bus"
)

const (
	// fullFor is how long a disk stays full, and leftOver what is left for what is written now and then.
	fullFor  = 45 * time.Second
	leftOver = 2 << 20
	// backWithin is how long it may take, once there is room, until events are accepted and nobody has done anything.
	backWithin = time.Minute
)

// diskFull fills the disk of the database or of the bus under load, and empties it. Callers get errors and no
// event that was accepted is lost. What ends for want of room is started again once there is some, as
// a supervisor does.
func diskFull(which string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		return b.withDisk(ctx, func(d *disk) (err error) {
			options := stack.Options{}
			where := ""
			if which == databaseDisk {
				where = filepath.Join(d.mount, "postgres")
			} else {
				options.Data = d.mount
			}
			if options.Postgres, err = pgtest.Start(ctx, where); err != nil {
				return fmt.Errorf("start Postgres: %w", err)
			}
			defer func() { err = errors.Join(err, options.Postgres.Stop()) }()
			f, err := b.field(ctx, split, options)
			if err != nil {
				return err
			}
			defer f.close()
			return f.fill(ctx, d, which == busDisk)
		})
	}
}

// dataFull does the same to the data directory of the all-in-one process, which nobody starts again.
func dataFull(ctx context.Context, b *bench) error {
	return b.withDisk(ctx, func(d *disk) error {
		f, err := b.field(ctx, allInOne, stack.Options{Data: d.mount})
		if err != nil {
			return err
		}
		defer f.close()
		return f.fill(ctx, d, false)
	})
}

// fill runs the load, fills the disk for a while, and waits until events are accepted again. Bus: nats-server is
// started anew when there is room.
func (f *field) fill(ctx context.Context, d *disk, bus bool) error {
	f.inFlightFor = recordedWithin
	f.load.start(ctx, f.rate, f.busRate)
	if err := wait(ctx, plainly, plainly+time.Second); err != nil {
		return err
	}
	before := len(f.load.restAccepted())
	err := f.broken(func() error {
		if err := d.fill(); err != nil {
			return err
		}
		for end := time.Now().Add(fullFor); time.Now().Before(end); {
			if err := wait(ctx, time.Second, time.Second+time.Millisecond); err != nil {
				return err
			}
			if err := d.fill(); err != nil { // also what was given back
				return err
			}
		}
		f.report.figure("events accepted while the disk was full", float64(len(f.load.restAccepted())-before))
		f.report.figure("publications over REST that were refused", float64(f.load.refused.Load()))
		f.report.figure("publications on NATS that were refused", float64(f.load.failed.Load()))
		f.report.must(f.load.refused.Load()+f.load.failed.Load() > 0, "nobody noticed that the disk was full")
		if err := d.empty(); err != nil {
			return err
		}
		return f.supervise(ctx, bus)
	})
	if err != nil {
		return err
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	refused, accepted, acked := int64(-1), 0, 0
	back := stack.Await(within, func() (bool, error) {
		r, n, m := f.load.refused.Load()+f.load.failed.Load(), len(f.load.restAccepted()), len(f.load.busAcked())
		good := r == refused && n > accepted && (m > acked || f.busRate == 0)
		refused, accepted, acked = r, n, m
		return good, wait(within, time.Second, time.Second+time.Millisecond)
	})
	f.report.figure("seconds until all is accepted again", time.Since(began).Seconds())
	f.report.must(back == nil, "%s after there was room, publications are still refused: %d events of REST and %d of NATS accepted, %d refusals", backWithin, accepted, acked, refused)
	if err := wait(ctx, plainly, plainly+time.Second); err != nil {
		return err
	}
	return f.finish(ctx)
}

// supervise starts what has ended, as whoever runs the services does. A nats-server whose disk was full does not
// write again until it is started anew: docs/troubleshooting.md says so.
func (f *field) supervise(ctx context.Context, bus bool) error {
	started := 0
	if bus {
		for _, p := range f.stack.NATS {
			if _, err := p.Stop(ctx); err != nil {
				return err
			}
			if err := p.Start(ctx); err != nil {
				return err
			}
			started++
		}
	}
	for _, p := range f.stack.Processes() {
		if p.Died() == nil {
			continue
		}
		f.say("%v", p.Died())
		_, _ = p.Stop(ctx) // it has ended
		if err := p.Start(ctx); err != nil {
			return err
		}
		started++
	}
	if f.stack.Postgres != nil && f.stack.Postgres.Ended() {
		if err := f.stack.Postgres.Halt(); err != nil {
			return err
		}
		if err := f.stack.Postgres.Resume(ctx); err != nil {
			return err
		}
		started++
	}
	f.report.figure("processes that were started again", float64(started))
	return nil
}

// fill takes all space that is left, but for a little.
func (d *disk) fill() error {
	var space syscall.Statfs_t
	if err := syscall.Statfs(d.mount, &space); err != nil {
		return fmt.Errorf("ask for free space: %w", err)
	}
	free := int64(space.Bfree) * space.Bsize
	if free <= leftOver {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(d.mount, "filler"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	defer file.Close()
	end, err := file.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	if err := syscall.Fallocate(int(file.Fd()), 0, end, free-leftOver/2); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}

func (d *disk) empty() error {
	if err := os.Remove(filepath.Join(d.mount, "filler")); err != nil {
		return fmt.Errorf("empty the disk: %w", err)
	}
	return nil
}
