package acme

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
	"golang.org/x/sync/singleflight"

	"waybill.dev/shared/domain"
)

// proofs keeps the proofs that an authority will look for at a hostname in the database, so that
// any gateway can answer.
type proofs struct {
	store   Store
	flights singleflight.Group
}

// Present implements acmez.Solver.
func (p *proofs) Present(ctx context.Context, challenge acme.Challenge) error {
	text, err := json.Marshal(challenge)
	if err != nil {
		return fmt.Errorf("write proof: %w", err)
	}
	return p.store.PutACME(ctx, proofKey(challenge.Type, challenge.Identifier.Value), text)
}

// CleanUp implements acmez.Solver.
func (p *proofs) CleanUp(ctx context.Context, challenge acme.Challenge) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
	defer cancel()
	return p.store.DeleteACME(ctx, proofKey(challenge.Type, challenge.Identifier.Value))
}

func proofKey(kind, hostname string) string { return "proofs/" + kind + "/" + hostname }

// errNoOrder reports that there is no open order for a hostname.
var errNoOrder = errors.New("there is no open order")

// find returns the proof of an open order. Anybody may ask for a proof without a key, so concurrent
// requests for the same hostname share one read of the database.
func (p *proofs) find(ctx context.Context, kind, hostname string) (challenge acme.Challenge, err error) {
	key := proofKey(kind, hostname)
	read, err, _ := p.flights.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofTime)
		defer cancel()
		text, _, err := p.store.ACME(ctx, key)
		return text, err
	})
	if errors.Is(err, domain.ErrNotFound) {
		return challenge, errNoOrder
	}
	if err == nil {
		text, _ := read.([]byte)
		err = json.Unmarshal(text, &challenge)
	}
	if err != nil {
		return challenge, fmt.Errorf("read proof: %w", err)
	}
	return challenge, nil
}

const (
	proofPath = "/.well-known/acme-challenge/"
	proofTime = 3 * time.Second
)

// Asks reports whether a request looks for a proof.
func Asks(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, proofPath) }

// Answer answers an authority that looks for the proof of HTTP-01 at a hostname. It returns false
// when there is no open order for the request, which is then handled like any other request.
func (a *Authority) Answer(w http.ResponseWriter, r *http.Request, hostname string) bool {
	token, ok := strings.CutPrefix(r.URL.Path, proofPath)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	challenge, err := a.proofs.find(r.Context(), acme.ChallengeTypeHTTP01, hostname)
	if err != nil || challenge.Token != token {
		return false
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(challenge.KeyAuthorization))
	return true
}

var _ acmez.Solver = (*proofs)(nil)
