package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// Columns of webhooks that are sealed; they name the additional data.
const (
	columnSecret         = "secret"
	columnPreviousSecret = "previous_secret"
	columnHeaders        = "headers"
)

// sealedHeader is a custom header as it lies, sealed, in the row.
type sealedHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// webhookToRow seals what is secret in w.
func (s *Store) webhookToRow(w domain.Webhook) (webhookRow, error) {
	row := webhookRow{
		ID: string(w.ID), Account: w.Account, URL: w.URL, Events: joinTypes(w.Events),
		Active: w.Active, Description: w.Description,
		RetrySchedule: joinSchedule(w.RetrySchedule), TimeoutMS: w.Timeout.Milliseconds(),
		MaxInFlight: w.MaxInFlight, RatePerSecond: w.RatePerSecond,
		PreviousSecretExpiresAt: instantOf(w.PreviousSecretExpiresAt),
		CreatedAt:               instantOf(w.CreatedAt), UpdatedAt: instantOf(w.UpdatedAt),
		Version: w.Version, ActivatedVersion: w.ActivatedVersion,
		ActivatedAt: instantOf(w.ActivatedAt), DeactivatedAt: instantOf(w.DeactivatedAt),
		Deleted: w.Deleted,
	}
	var headers []byte
	if len(w.Headers) > 0 {
		kept := make([]sealedHeader, len(w.Headers))
		for i, h := range w.Headers {
			kept[i] = sealedHeader{h.Name, h.Value.Reveal()}
		}
		var err error
		if headers, err = json.Marshal(kept); err != nil {
			return row, fmt.Errorf("encode headers: %w", err)
		}
	}
	for _, column := range []struct {
		name  string
		plain []byte
		into  *[]byte
	}{
		{columnSecret, []byte(w.Secret.Reveal()), &row.Secret},
		{columnPreviousSecret, []byte(w.PreviousSecret.Reveal()), &row.PreviousSecret},
		{columnHeaders, headers, &row.Headers},
	} {
		if len(column.plain) == 0 {
			continue
		}
		sealed, err := s.seal(column.plain, webhookSealData(column.name, row.ID, row.Account))
		if err != nil {
			return row, fmt.Errorf("seal %s: %w", column.name, err)
		}
		*column.into = sealed
	}
	return row, nil
}

// webhookFromRow opens what is sealed in row. A value that was moved here from another
// row, column or account does not open.
func (s *Store) webhookFromRow(row webhookRow) (domain.Webhook, error) {
	w := domain.Webhook{
		ID: domain.WebhookID(row.ID), Account: row.Account, URL: row.URL, Events: splitTypes(row.Events),
		Active: row.Active, Description: row.Description,
		Timeout:     time.Duration(row.TimeoutMS) * time.Millisecond,
		MaxInFlight: row.MaxInFlight, RatePerSecond: row.RatePerSecond,
		PreviousSecretExpiresAt: row.PreviousSecretExpiresAt.time(),
		CreatedAt:               row.CreatedAt.time(), UpdatedAt: row.UpdatedAt.time(),
		Version: row.Version, ActivatedVersion: row.ActivatedVersion,
		ActivatedAt: row.ActivatedAt.time(), DeactivatedAt: row.DeactivatedAt.time(),
		Deleted: row.Deleted,
	}
	var err error
	if w.RetrySchedule, err = splitSchedule(row.RetrySchedule); err != nil {
		return w, err
	}
	secret, err := s.open(row.Secret, columnSecret, row)
	if err != nil {
		return w, err
	}
	previous, err := s.open(row.PreviousSecret, columnPreviousSecret, row)
	if err != nil {
		return w, err
	}
	headers, err := s.open(row.Headers, columnHeaders, row)
	if err != nil {
		return w, err
	}
	w.Secret, w.PreviousSecret = domain.Secret(secret), domain.Secret(previous)
	if len(headers) > 0 {
		var kept []sealedHeader
		if err := json.Unmarshal(headers, &kept); err != nil {
			return w, fmt.Errorf("decode headers of webhook %s: not what was sealed", row.ID)
		}
		for _, h := range kept {
			w.Headers = append(w.Headers, domain.Header{Name: h.Name, Value: domain.Secret(h.Value)})
		}
	}
	return w, nil
}

func (s *Store) open(sealed []byte, column string, row webhookRow) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := s.keys.Open(sealed, webhookSealData(column, row.ID, row.Account))
	if err != nil {
		return nil, fmt.Errorf("open %s of webhook %s: %w", column, row.ID, err)
	}
	return plain, nil
}

func webhookSealData(column, id, account string) []byte {
	return []byte("webhooks|" + column + "|" + id + "|" + account)
}

func joinTypes(types []domain.EventType) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = string(t)
	}
	return strings.Join(texts, ",")
}

func splitTypes(text string) []domain.EventType {
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	types := make([]domain.EventType, len(parts))
	for i, p := range parts {
		types[i] = domain.EventType(p)
	}
	return types
}

// joinSchedule keeps nil (the installation's schedule) apart from empty (no retry).
func joinSchedule(waits []time.Duration) *string {
	if waits == nil {
		return nil
	}
	texts := make([]string, len(waits))
	for i, w := range waits {
		texts[i] = strconv.FormatInt(w.Microseconds(), 10)
	}
	text := strings.Join(texts, ",")
	return &text
}

func splitSchedule(text *string) ([]time.Duration, error) {
	if text == nil {
		return nil, nil
	}
	waits := []time.Duration{}
	for _, part := range strings.FieldsFunc(*text, func(r rune) bool { return r == ',' }) {
		micros, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read retry schedule: %w", err)
		}
		waits = append(waits, time.Duration(micros)*time.Microsecond)
	}
	return waits, nil
}
