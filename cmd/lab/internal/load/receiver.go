package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// checkEvery: of so many callbacks on a connection one has its signature checked, the
// first among them. Checking all would cost as much as receiving them.
const checkEvery = 256

// Setup is what a receiver counts from now on.
type Setup struct {
	Flocks []Flock `json:"flocks"`
	// Secrets are what endpoints sign with; of those without one nothing is checked.
	Secrets map[int]string `json:"secrets"`
}

// Received is what a receiver has counted since its setup.
type Received struct {
	Address    string  `json:"address"`
	Tallies    []Tally `json:"tallies"`
	Checked    int64   `json:"checked"` // signatures that are right
	Faults     int64   `json:"faults"`  // callbacks that are wrong in themselves
	FirstFault string  `json:"firstFault"`
}

// Tally returns the tally of a flock.
func (r Received) Tally(name string) Tally {
	for _, t := range r.Tallies {
		if t.Name == name {
			return t
		}
	}
	return Tally{Name: name}
}

// Receive has a receiver begin anew; a nil setup leaves it as it is.
func (c *Child) Receive(setup *Setup) (Received, error) {
	var r Received
	err := c.call(struct {
		Setup *Setup `json:"setup"`
	}{setup}, &r)
	return r, err
}

// receiver is the process that receives.
type receiver struct {
	address string
	field   atomic.Pointer[field]
}

// field is what a receiver counts by one setup.
type field struct {
	flocks    []*flock
	of        []*flock // by endpoint; nil: nobody may send there
	verifiers map[int]*standardwebhooks.Webhook
	checked   atomic.Int64
	faults    faults
}

func newReceiver(netHTTP bool) (*receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the receiver: %w", err)
	}
	r := &receiver{address: l.Addr().String()}
	r.field.Store(&field{})
	if netHTTP {
		server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }()
		return r, nil
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r, nil
}

// do carries out one order of who started the process.
func (r *receiver) do(_ context.Context, order struct {
	Setup *Setup `json:"setup"`
},
) (Received, error) {
	if order.Setup != nil {
		f, err := newField(*order.Setup)
		if err != nil {
			return Received{}, err
		}
		r.field.Store(f)
	}
	f := r.field.Load()
	received := Received{Address: r.address, Checked: f.checked.Load()}
	received.Faults, received.FirstFault = f.faults.read()
	for _, flock := range f.flocks {
		received.Tallies = append(received.Tallies, flock.tally())
	}
	return received, nil
}

func newField(setup Setup) (*field, error) {
	f := &field{verifiers: make(map[int]*standardwebhooks.Webhook)}
	for _, s := range setup.Flocks {
		flock := newFlock(s)
		f.flocks = append(f.flocks, flock)
		for len(f.of) < s.To {
			f.of = append(f.of, nil)
		}
		for i := s.From; i < s.To; i++ {
			f.of[i] = flock
		}
	}
	for endpoint, secret := range setup.Secrets {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("read a webhook's secret: %w", err)
		}
		f.verifiers[endpoint] = verifier
	}
	return f, nil
}

// callback is what counts of one POST.
type callback struct {
	endpoint int
	id       []byte
	body     []byte
	// check has the headers when the signature is to be checked; otherwise it is nil.
	check http.Header
}

// take counts a callback and says with which status to answer, after what delay.
func (r *receiver) take(c callback) (status int, delay time.Duration) {
	now, f := time.Now(), r.field.Load()
	if c.endpoint >= len(f.of) || f.of[c.endpoint] == nil {
		f.faults.add("%s came to endpoint %d, where nothing should come", c.id, c.endpoint)
		return http.StatusOK, 0
	}
	flock := f.of[c.endpoint]
	n, ok := numberOf(c.id)
	sent, timed := sentAt(c.body)
	if !ok || !timed {
		f.faults.add("%q with %d bytes is no event of the bench", c.id, len(c.body))
		return http.StatusOK, 0
	}
	if verifier := f.verifiers[c.endpoint]; c.check != nil && verifier != nil {
		if err := verifier.Verify(c.body, c.check); err != nil {
			f.faults.add("%s: the signature does not verify: %v", c.id, err)
		} else {
			f.checked.Add(1)
		}
	}
	if !flock.arrived(c.endpoint, n, sent, now) {
		return http.StatusServiceUnavailable, flock.Delay
	}
	return http.StatusOK, flock.Delay
}
