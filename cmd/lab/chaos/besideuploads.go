package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/uploads"
	"waybill.dev/shared/domain"
)

const (
	besideRate   = 500  // requests a second of the account that uploads nothing
	besideRoutes = 500  // of each release of the other account
	manyUploads  = 1000 // of the other account: some are taken, most are refused with 429
	// betweenTries makes the uploads come eight times as fast as an account may upload.
	betweenTries = 125 * time.Millisecond
)

// besideUploads lets one account upload as often as it can while another one's deployment is asked.
func besideUploads(ctx context.Context, b *bench) error {
	d, err := b.deployed(ctx, split, besideRate)
	if err != nil {
		return err
	}
	defer d.close()
	_, key, err := d.stack.Client().NewAccount(ctx, "uploader")
	if err != nil {
		return fmt.Errorf("make the account that uploads: %w", err)
	}
	other, err := uploads.NewDeployer(ctx, client.Access{URL: d.stack.URL, Key: domain.Secret(key)})
	if err != nil {
		return err
	}
	defer other.Close()
	during := betweenTries * manyUploads
	if err := wait(ctx, during/4, during/4+time.Millisecond); err != nil {
		return err
	}
	before := d.judge("without uploads")
	taken, err := uploadMany(ctx, other)
	if err != nil {
		return err
	}
	beside := d.judge("beside uploads")
	b.report.figure("uploads taken", float64(taken))
	b.report.figure("uploads refused", float64(manyUploads-taken))
	b.report.figure("p99 without uploads, ms", milliseconds(before.P99))
	b.report.figure("p99 beside uploads, ms", milliseconds(beside.P99))
	b.report.must(taken > 0 && taken < manyUploads, "%d of %d uploads were taken", taken, manyUploads)
	b.report.must(beside.P99 <= 2*before.P99, "another account's uploads raise the p99 from %s to %s", before.P99, beside.P99)
	return nil
}

// uploadMany asks for manyUploads uploads, and returns how many the API accepted.
func uploadMany(ctx context.Context, d *uploads.Deployer) (taken int, err error) {
	archive, err := uploads.Release(1, besideRoutes)
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(betweenTries)
	defer tick.Stop()
	for n := range manyUploads {
		select {
		case <-ctx.Done():
			return taken, ctx.Err()
		case <-tick.C:
		}
		err := d.Try(ctx, archive)
		refused, ok := errors.AsType[*client.Problem](err)
		switch {
		case err == nil:
			taken++
		case !ok || refused.Status != http.StatusTooManyRequests:
			return taken, fmt.Errorf("upload %d: %w", n+1, err)
		}
	}
	return taken, nil
}
