package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is a request that is sent again and again on some connections, each of which waits
// for its answer before it sends the next. The request's bytes are made once, and every
// answer must be the same to the byte: the loader costs little, and no error passes for an
// answer.
type load struct {
	address     string
	request     []byte
	want        []byte // body of the answer
	connections int
	duration    time.Duration
}

// measured is what a load found.
type measured struct {
	requests  int
	perSecond float64
	p50, p99  time.Duration
}

// run sends for the duration.
func (l load) run(ctx context.Context) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, l.duration+10*time.Second)
	defer cancel()
	times := make([][]time.Duration, l.connections)
	group, ctx := errgroup.WithContext(ctx)
	started := time.Now()
	for i := range times {
		group.Go(func() (err error) {
			times[i], err = l.connection(ctx, started.Add(l.duration))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return measured{}, err
	}
	all := slices.Concat(times...)
	if len(all) == 0 {
		return measured{}, errors.New("no request was answered")
	}
	slices.Sort(all)
	return measured{
		requests:  len(all),
		perSecond: float64(len(all)) / time.Since(started).Seconds(),
		p50:       all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}

// connection sends on one connection until then, and returns how long each answer took.
func (l load) connection(ctx context.Context, until time.Time) ([]time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, fmt.Errorf("set the deadline: %w", err)
		}
	}
	reader := bufio.NewReaderSize(conn, 64<<10)
	var body bytes.Buffer
	var times []time.Duration
	for sent := time.Now(); sent.Before(until); {
		if _, err := conn.Write(l.request); err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
		if err := readAnswer(reader, &body); err != nil {
			return nil, err
		}
		if !bytes.Equal(body.Bytes(), l.want) {
			return nil, fmt.Errorf("the answer is another one: %.500s", body.Bytes())
		}
		now := time.Now()
		times = append(times, now.Sub(sent))
		sent = now
	}
	return times, nil
}

// readAnswer reads one answer with the status 200 into body.
func readAnswer(reader *bufio.Reader, body *bytes.Buffer) error {
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	defer response.Body.Close()
	body.Reset()
	if _, err := io.Copy(body, response.Body); err != nil {
		return fmt.Errorf("read the answer's body: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered with %d: %.500s", response.StatusCode, body.Bytes())
	}
	return nil
}

// first sends the request once and returns the answer.
func (l load) first(ctx context.Context) ([]byte, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write(l.request); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	var body bytes.Buffer
	if err := readAnswer(bufio.NewReader(conn), &body); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}
