package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/families/feed"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// anybody is who every caller is.
type anybody struct{}

func (anybody) Authenticate(context.Context, string) (apikey.Principal, error) {
	return apikey.Principal{Account: "default", ID: "test", Scopes: []domain.Scope{domain.ScopeEventsRead}}, nil
}

// slow has pages of which the webhook wants nothing; after some of them it takes longer than a
// request has.
type slow struct {
	feed.Store
	quick int
}

func (*slow) GetWebhook(context.Context, string, domain.WebhookID) (domain.Webhook, domain.Health, error) {
	return domain.Webhook{Filter: `{"data.a":1}`, Events: domain.EventTypes()}, domain.Health{}, nil
}

func (s *slow) Feed(ctx context.Context, q pipeline.FeedQuery) (pipeline.FeedPage, error) {
	if s.quick == 0 {
		<-ctx.Done()
		return pipeline.FeedPage{}, errors.Join(domain.ErrUnavailable, ctx.Err())
	}
	s.quick--
	return pipeline.FeedPage{Cursor: q.After + "x"}, nil
}

// When the time is over before an event was found, the answer says how far was looked. Where nothing
// was looked at, it says that it failed.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quick, status int
		body          string
	}{
		{3, http.StatusOK, `{"data":[],"cursor":"xxx","done":false}`},
		{1, http.StatusOK, `{"data":[],"cursor":"x","done":false}`},
		{0, http.StatusServiceUnavailable, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			handler := web.New(web.Options{
				Routes: feed.Routes(&slow{quick: c.quick}, nil), Authenticator: anybody{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			})
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/webhooks/0199a1f5-6f3e-7a50-8c38-0e55a2c0ffee/feed", http.NoBody)
			request.Header.Set("X-Api-Key", "any")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != c.status || c.body != "" && answer.Body.String() != c.body {
				t.Errorf("after %d pages: %d %s", c.quick, answer.Code, answer.Body)
			}
		})
	}
}
