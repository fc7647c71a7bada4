package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
)

// figureCounted is how many requests the database has in the end.
const figureCounted = "requests that are counted"

// withoutDatabase takes the database away from gateways that serve a deployment: no request fails
// meanwhile, and each one is in the counts when it is back.
func withoutDatabase(ctx context.Context, b *bench) error {
	d, err := b.deployed(ctx, split, uploadRate/2)
	if err != nil {
		return err
	}
	defer d.close()
	if err := wait(ctx, plainly, plainly+time.Millisecond); err != nil {
		return err
	}
	all := d.judge("with the database").Requests
	victim := postgres(d.stack)
	if err := victim.kill(); err != nil {
		return err
	}
	if err := wait(ctx, b.outage, b.outage+time.Millisecond); err != nil {
		return err
	}
	all += d.judge("without the database").Requests
	if err := victim.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", victim.name, err)
	}
	if err := wait(ctx, plainly, plainly+time.Millisecond); err != nil {
		return err
	}
	d.stop()
	<-d.done
	all += d.judge("after it was back").Requests
	counted, err := d.counted(ctx, int64(all))
	if err != nil {
		return err
	}
	b.report.figure(figureCounted, float64(counted))
	b.report.must(counted == int64(all), "%d requests were answered, and %d are counted", all, counted)
	return nil
}

// counted returns how many requests to the deployment are counted, when they are as many as wanted,
// or when it has taken too long.
func (d *deployed) counted(ctx context.Context, want int64) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	api := d.stack.Client()
	defer api.Close()
	waited := stack.Await(ctx, func() (bool, error) {
		answer, err := api.Ask(ctx, http.MethodGet, "/v1/deployments/"+d.name+"/stats-by-status-code?filter=last-hour", nil, nil)
		if err != nil {
			return false, err
		}
		if answer.Status != http.StatusOK {
			return false, nil // the database may still be starting
		}
		var said struct {
			Data struct {
				Stats []struct {
					TotalCalls int64 `json:"totalCalls"`
				} `json:"stats"`
			} `json:"data"`
		}
		if err := json.Unmarshal(answer.Body, &said); err != nil {
			return false, fmt.Errorf("read the counts: %w", err)
		}
		n = 0
		for _, of := range said.Data.Stats {
			n += of.TotalCalls
		}
		return n >= want, nil
	})
	if ctx.Err() != nil {
		return n, nil
	}
	return n, waited
}
