package load

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// answersWithin is how much longer than their time connections may wait for their last answers.
const answersWithin = 10 * time.Second

// Repeat is a request that is sent again and again on some connections, each of which waits for its answer
// before it sends the next.
type Repeat struct {
	Address     string
	TLS         bool // with any certificate
	Request     []byte
	Connections int
	For         time.Duration
	Want        string // body of each answer; empty: any
}

// Run sends for the time given. What is no 200 with the body that is wanted was refused.
func (r Repeat) Run(ctx context.Context) (Published, error) {
	ctx, cancel := context.WithTimeout(ctx, r.For+answersWithin)
	defer cancel()
	connections, err := dials(ctx, r.Address, r.TLS, r.Connections)
	end := func() {
		for _, c := range connections {
			c.close()
		}
	}
	defer end()
	if err != nil {
		return Published{}, err
	}
	defer context.AfterFunc(ctx, end)()
	w := &work{source: newSource(Job{Events: endless, For: r.For})}
	err = each(len(connections), func(i int) error {
		connections[i].whole = r.Want != ""
		for {
			_, count, began := w.source.take(ctx, 1)
			if count == 0 {
				return nil
			}
			status, answer, err := connections[i].ask(r.Request)
			if err != nil {
				return fmt.Errorf("ask %.50q: %w", r.Request, err)
			}
			if status != http.StatusOK || answer != r.Want {
				w.refused.Add(1)
				w.faults.add("%d: %.500s", status, answer)
				continue
			}
			w.accepted.Add(1)
			w.latency.Add(time.Since(began))
		}
	})
	return w.published(), err
}

// Once sends the request once, and returns the body of the answer.
func (r Repeat) Once(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	c, err := dial(ctx, r.Address, r.TLS)
	if err != nil {
		return "", err
	}
	defer c.close()
	defer context.AfterFunc(ctx, c.close)()
	c.whole = true
	status, answer, err := c.ask(r.Request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("answered with %d: %.500s", status, answer)
	}
	return answer, err
}
