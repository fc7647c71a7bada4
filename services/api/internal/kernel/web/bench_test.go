package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// instant accepts everything at once.
type instant struct{}

func (instant) Submit(_ context.Context, s pipeline.Submission, _ string) (pipeline.Receipt, error) {
	receipt := pipeline.Receipt{Events: make([]pipeline.AcceptedEvent, len(s.Events))}
	for i, e := range s.Events {
		receipt.Events[i].ID = e.ID
	}
	return receipt, nil
}

// BenchmarkPublish is what one event costs in the HTTP handler alone: routing, key, strict
// decoding, answer; without connection, commit and bus.
func BenchmarkPublish(b *testing.B) {
	handler := newHandler(&rig{accepter: instant{}, who: caller{scopes: []domain.Scope{domain.ScopeAdmin}}})
	body := `{"id":"e1","type":"shipment.created","timestamp":"2026-01-02T03:04:05Z","data":{"shipmentId":"s1","note":"` + strings.Repeat("x", 900) + `"}}`
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer key")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusAccepted {
			b.Fatal(recorder.Code, recorder.Body)
		}
	}
}
