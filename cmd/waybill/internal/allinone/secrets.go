package allinone

import (
	"context"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

// webhooks is what the receiver's secrets are found in.
type webhooks interface {
	ConfigVersion(ctx context.Context) (int64, error)
	Webhooks(ctx context.Context, since int64) ([]domain.Webhook, int64, error)
}

// pollEvery is how often changes of webhooks are looked for besides those that were
// announced.
const pollEvery = 2 * time.Second

// secrets tells the built-in receiver the secrets of the webhooks that point to it, so
// that it checks each of its callbacks, however the webhook was registered.
type secrets struct {
	receiver *receiver.Receiver
	port     string // of the receiver, on loopback
	webhooks webhooks
	changed  <-chan struct{}
	log      *slog.Logger
}

func (s *secrets) run(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	version := int64(-1)
	for {
		if now, err := s.webhooks.ConfigVersion(ctx); err == nil && now != version {
			if list, read, err := s.webhooks.Webhooks(ctx, 0); err == nil {
				version = read
				s.receiver.Found(s.byPath(list))
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

// byPath returns what is to be known of the webhooks that point to the receiver.
func (s *secrets) byPath(list []domain.Webhook) map[string]receiver.Known {
	found := make(map[string]receiver.Known)
	for _, w := range list {
		u, err := url.Parse(w.URL)
		if err != nil || u.Port() != s.port || !isLoopback(u.Hostname()) || w.Deleted {
			continue
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
