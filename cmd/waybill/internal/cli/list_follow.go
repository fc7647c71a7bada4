package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
)

const (
	// goOnEvery is how often a list is read with --follow. New deliveries are shown within 2 s.
	goOnEvery = time.Second
	// goOnPage is how many of a list are read each time, and goOnKept how many things are remembered.
	goOnPage, goOnKept = 200, 2000
)

// followList shows a list, the oldest thing first, and then new and changed things, until it is
// interrupted.
func (a *app) followList(act *action, c *client.Client) error {
	ctx, stop := boot.Signals(context.Background(), nil)
	defer stop()
	seen := make(map[string]string) // last state by id
	var order []string
	tick := time.NewTicker(goOnEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		fresh, err := changed(ctx, act, c, seen)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || !client.MayPass(err)):
			return err
		}
		for _, one := range fresh {
			id := fmt.Sprint(one["id"])
			if _, known := seen[id]; !known {
				order = append(order, id)
			}
			seen[id] = state(one)
			if err := a.line(*act.form, one); err != nil {
				return err
			}
		}
		for len(order) > goOnKept {
			delete(seen, order[0])
			order = order[1:]
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// changed returns the new things in the list and those with a changed state, the oldest first.
func changed(ctx context.Context, act *action, c *client.Client, seen map[string]string) ([]map[string]any, error) {
	request, err := act.Request(act.input)
	if err != nil {
		return nil, err
	}
	if request.Query.Get("limit") == "" || len(seen) > 0 {
		request.Query.Set("limit", strconv.Itoa(goOnPage))
	}
	answer, err := c.Do(ctx, http.MethodGet, request.Target(), nil)
	if err != nil {
		return nil, err
	}
	var page struct {
		Data []map[string]any `json:"data"`
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	fresh := slices.DeleteFunc(page.Data, func(one map[string]any) bool { return seen[fmt.Sprint(one["id"])] == state(one) })
	slices.Reverse(fresh)
	return fresh, nil
}

// state returns the part of a thing whose changes are shown.
func state(one map[string]any) string {
	return fmt.Sprint(one["status"], one["reason"], one["attemptCount"])
}

// line prints one delivery. A table would need the widths of all rows in advance.
func (a *app) line(form output, one map[string]any) error {
	switch form {
	case asJSON:
		return terminal.JSONLine(a.stdout, one)
	case asID:
		_, err := fmt.Fprintln(a.stdout, terminal.Clean(fmt.Sprint(one["id"])))
		return err
	}
	at, _ := one["updatedAt"].(string)
	if moment, err := time.Parse(time.RFC3339, at); err == nil {
		at = moment.Local().Format("15:04:05")
	}
	answer := "-"
	for _, name := range []string{"class", "statusCode"} {
		if value, ok := one[name]; ok && value != nil {
			answer = fmt.Sprint(value)
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %-9s  %-8s  %s  %s\n", terminal.Clean(at), terminal.Clean(fmt.Sprint(one["status"])), terminal.Clean(answer),
		terminal.Clean(fmt.Sprint(one["id"])), terminal.Clean(fmt.Sprint(one["eventType"])))
	return err
}
