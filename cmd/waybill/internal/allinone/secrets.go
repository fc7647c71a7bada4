package allinone

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

// webhooks has the receiver's secrets.
type webhooks interface {
	ConfigVersion(ctx context.Context) (int64, error)
	Webhooks(ctx context.Context, since int64) ([]domain.Webhook, int64, error)
}

// pollEvery is how often changes of webhooks are looked for, in addition to the announced ones.
const pollEvery = 2 * time.Second

// secrets passes the secrets of the webhooks that point to the built-in receiver to it, so that it
// checks all of its callbacks, however the webhook was registered.
type secrets struct {
	receiver *receiver.Receiver
	port     string // port of the receiver, on loopback
	webhooks webhooks
	changed  <-chan struct{}
	log      *slog.Logger
}

func (s *secrets) run(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	version := int64(0) // before the first one
	mine := map[domain.WebhookID]domain.Webhook{}
	for {
		if now, err := s.webhooks.ConfigVersion(ctx); err == nil && now != version {
			if changed, read, err := s.webhooks.Webhooks(ctx, version); err == nil {
				version = read
				s.note(mine, changed)
				s.receiver.Found(byPath(mine))
			} else {
				s.log.Debug("the receiver could not learn the webhooks' secrets", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		case <-ticker.C:
		}
	}
}

// note stores those changed webhooks that point to the receiver, and removes the others.
func (s *secrets) note(mine map[domain.WebhookID]domain.Webhook, changed []domain.Webhook) {
	for _, w := range changed {
		if u, err := url.Parse(w.URL); err == nil && u.Port() == s.port && isLoopback(u.Hostname()) && !w.Deleted {
			mine[w.ID] = w
		} else {
			delete(mine, w.ID)
		}
	}
}

// byPath returns the data about the webhooks that point to the receiver, by path.
func byPath(mine map[domain.WebhookID]domain.Webhook) map[string]receiver.Known {
	found := make(map[string]receiver.Known)
	for _, w := range slices.SortedFunc(maps.Values(mine), func(a, b domain.Webhook) int { return cmp.Compare(a.Version, b.Version) }) {
		u, err := url.Parse(w.URL)
		if err != nil {
			continue // can't fail: note has parsed it
		}
		known := found[u.Path]
		known.Queries = append(known.Queries, u.RawQuery)
		for _, secret := range w.Secrets(time.Now()) {
			if key, err := signature.ParseSecret(secret.Reveal()); err == nil {
				known.Secrets = append(known.Secrets, key)
			}
		}
		for i := range w.SigningKeys {
			if key, err := signature.PublicKey(w.SigningKeys[i].Public); err == nil {
				known.Secrets = append(known.Secrets, key)
			}
		}
		found[u.Path] = known
	}
	return found
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
