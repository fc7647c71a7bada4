package pipeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/store"
)

// Columns of webhooks that are sealed; they name the additional data.
const (
	columnSecret         = "secret"
	columnPreviousSecret = "previous_secret"
	columnHeaders        = "headers"
	columnAuth           = "auth"
)

// sealedHeader is a custom header in the form in which the row has it, sealed.
type sealedHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// webhookToRow seals the secrets of w.
func (p *Pipeline) webhookToRow(w domain.Webhook) (webhookRow, error) {
	row := webhookRow{
		ID: string(w.ID), Account: w.Account, URL: w.URL, Events: joinTypes(w.Events),
		Active: w.Active, Description: w.Description,
		RetrySchedule: joinSchedule(w.RetrySchedule), TimeoutMS: w.Timeout.Milliseconds(),
		MaxInFlight: w.MaxInFlight, RatePerSecond: w.RatePerSecond,
		PreviousSecretExpiresAt: store.InstantOf(w.PreviousSecretExpiresAt),
		CreatedAt:               store.InstantOf(w.CreatedAt), UpdatedAt: store.InstantOf(w.UpdatedAt),
		Version: w.Version, ActivatedVersion: w.ActivatedVersion,
		ActivatedAt: store.InstantOf(w.ActivatedAt), DeactivatedAt: store.InstantOf(w.DeactivatedAt),
		Deleted:  w.Deleted,
		Ordering: string(w.Ordering), OrderingMaxWaitMS: w.OrderingMaxWait.Milliseconds(),
		Delivery: string(w.Delivery), Signing: string(w.Signing), PushedSince: store.InstantOf(w.PushedSince),
		AuthExpiresAt: store.InstantOf(receiverauth.ExpiresAt(w.Auth)), URLVersion: w.URLVersion,
	}
	if w.Filter != "" {
		row.Filter = &w.Filter
	}
	if w.ConsumerID != "" {
		row.ConsumerID = &w.ConsumerID
	}
	var headers []byte
	if len(w.Headers) > 0 {
		kept := store.All(w.Headers, func(h domain.Header) sealedHeader { return sealedHeader{h.Name, h.Value.Reveal()} })
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
		{columnAuth, []byte(w.Auth.Reveal()), &row.Auth},
	} {
		if len(column.plain) == 0 {
			continue
		}
		sealed, err := p.db.Seal(column.plain, webhookSealData(column.name, row.ID, row.Account))
		if err != nil {
			return row, fmt.Errorf("seal %s: %w", column.name, err)
		}
		*column.into = sealed
	}
	return row, nil
}

// webhookFromRow opens the sealed columns of row. A value that was moved here from another row,
// column or account does not open. A value that can't be read is left out, and the webhook has a
// Fault, so that one row does not keep the others from being read.
func (p *Pipeline) webhookFromRow(row webhookRow) domain.Webhook {
	w := domain.Webhook{
		ID: domain.WebhookID(row.ID), Account: row.Account, URL: row.URL, Events: splitTypes(row.Events),
		Active: row.Active, Description: row.Description,
		Timeout:     time.Duration(row.TimeoutMS) * time.Millisecond,
		MaxInFlight: row.MaxInFlight, RatePerSecond: row.RatePerSecond,
		PreviousSecretExpiresAt: row.PreviousSecretExpiresAt.Time(),
		CreatedAt:               row.CreatedAt.Time(), UpdatedAt: row.UpdatedAt.Time(),
		Version: row.Version, ActivatedVersion: row.ActivatedVersion,
		ActivatedAt: row.ActivatedAt.Time(), DeactivatedAt: row.DeactivatedAt.Time(),
		Deleted:  row.Deleted,
		Ordering: domain.Ordering(row.Ordering), OrderingMaxWait: time.Duration(row.OrderingMaxWaitMS) * time.Millisecond,
		Delivery: domain.DeliveryMode(row.Delivery), Signing: domain.Signing(row.Signing), PushedSince: row.PushedSince.Time(),
		URLVersion: row.URLVersion,
	}
	if row.Filter != nil {
		w.Filter = *row.Filter
	}
	if row.ConsumerID != nil {
		w.ConsumerID = *row.ConsumerID
	}
	if w.Deleted {
		return w // the settings that are checked below are empty here
	}
	var faults [5]string
	w.Secret, faults[0] = p.openSecret(row.Secret, columnSecret, row)
	if len(row.Secret) == 0 {
		faults[0] = "its secret is missing"
	}
	w.PreviousSecret, faults[1] = p.openSecret(row.PreviousSecret, columnPreviousSecret, row)
	w.Headers, faults[2] = p.openHeaders(row)
	w.RetrySchedule, faults[3] = splitSchedule(row.RetrySchedule)
	var auth []byte
	auth, faults[4] = p.open(row.Auth, columnAuth, row)
	w.Auth = domain.Secret(auth)
	w.Fault = cmp.Or(faults[0], faults[1], faults[2], faults[3], faults[4], settingsFault(row))
	return w
}

// settingsFault describes plain values of a row that no webhook can have. They may have been
// changed to anything in the database.
func settingsFault(row webhookRow) string {
	_, err := domain.ParseWebhookID(row.ID)
	rate := 1.0
	if row.RatePerSecond != nil {
		rate = *row.RatePerSecond
	}
	switch {
	case err != nil:
		return "its id is not a UUID"
	case row.TimeoutMS < 0 || row.MaxInFlight < 0 || !(rate > 0) || math.IsInf(rate, 1): // NaN too
		return "its time-out, its limit of attempts in flight or its rate is out of range"
	case row.OrderingMaxWaitMS < 0 || !slices.Contains(domain.Orderings(), domain.Ordering(row.Ordering)):
		return "its ordering is none that there is"
	case !slices.Contains(domain.DeliveryModes(), domain.DeliveryMode(row.Delivery)):
		return "its way of delivery is neither push nor pull"
	case !slices.Contains(domain.Signings(), domain.Signing(row.Signing)):
		return "its way of signing is none that there is"
	}
	return ""
}

// openSecret opens a signing secret. A missing one is no fault here.
func (p *Pipeline) openSecret(sealed []byte, column string, row webhookRow) (domain.Secret, string) {
	plain, fault := p.open(sealed, column, row)
	if len(plain) == 0 {
		return "", fault
	}
	if _, err := signature.ParseSecret(string(plain)); err != nil {
		return "", "its " + strings.ReplaceAll(column, "_", " ") + " is not a secret that can sign"
	}
	return domain.Secret(plain), ""
}

func (p *Pipeline) openHeaders(row webhookRow) ([]domain.Header, string) {
	plain, fault := p.open(row.Headers, columnHeaders, row)
	if len(plain) == 0 {
		return nil, fault
	}
	var kept []sealedHeader
	if err := json.Unmarshal(plain, &kept); err != nil {
		return nil, "its headers can't be decoded"
	}
	headers := store.All(kept, func(h sealedHeader) domain.Header { return domain.Header{Name: h.Name, Value: domain.Secret(h.Value)} })
	return headers, ""
}

// open opens a sealed column. If it can't, fault tells the webhook's owner why.
func (p *Pipeline) open(sealed []byte, column string, row webhookRow) (plain []byte, fault string) {
	if len(sealed) == 0 {
		return nil, ""
	}
	plain, err := p.db.Unseal(sealed, webhookSealData(column, row.ID, row.Account))
	switch {
	case errors.Is(err, seal.ErrUnknownKey):
		return nil, "its " + strings.ReplaceAll(column, "_", " ") + " can't be decrypted: it was encrypted with a key that is not in WAYBILL_ENCRYPTION_KEY"
	case err != nil:
		return nil, "its " + strings.ReplaceAll(column, "_", " ") + " can't be decrypted: the stored bytes were changed, cut or moved"
	}
	return plain, ""
}

func webhookSealData(column, id, account string) []byte {
	return []byte("webhooks|" + column + "|" + id + "|" + account)
}

func joinTypes(types []domain.EventType) string {
	texts := store.All(types, func(t domain.EventType) string { return string(t) })
	return strings.Join(texts, ",")
}

func splitTypes(text string) []domain.EventType {
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	return store.All(parts, func(p string) domain.EventType { return domain.EventType(p) })
}

// joinSchedule keeps nil (the installation's schedule) different from empty (no retry).
func joinSchedule(waits []time.Duration) *string {
	if waits == nil {
		return nil
	}
	texts := store.All(waits, func(w time.Duration) string { return strconv.FormatInt(w.Microseconds(), 10) })
	text := strings.Join(texts, ",")
	return &text
}

func splitSchedule(text *string) (waits []time.Duration, fault string) {
	if text == nil {
		return nil, ""
	}
	waits = []time.Duration{}
	for _, part := range strings.FieldsFunc(*text, func(r rune) bool { return r == ',' }) {
		micros, err := strconv.ParseInt(part, 10, 64)
		if err != nil || micros < 0 || micros > math.MaxInt64/int64(time.Microsecond) {
			return nil, "its retry schedule is not a list of waits"
		}
		waits = append(waits, time.Duration(micros)*time.Microsecond)
	}
	return waits, ""
}
