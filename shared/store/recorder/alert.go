package recorder

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

// MaxSampleAnswer is how many bytes of a receiver's answer an alert has at most.
const MaxSampleAnswer = 256

// transition is the change that an alert reports.
type transition struct {
	kind    domain.EventType
	webhook domain.WebhookID
	at      time.Time
	// key identifies the transition among those of its kind and webhook: the same transition always
	// has the same key.
	key string

	failures int
	since    time.Time
	answer   domain.Answer
	reason   domain.DisabledReason
	delivery domain.DeliveryID
	event    string
	leftOut  int64
}

// alertData is the data of an alert.
type alertData struct {
	WebhookID      domain.WebhookID      `json:"webhookId"`
	Host           string                `json:"host"`
	Class          domain.Class          `json:"class"`
	StatusCode     int                   `json:"statusCode,omitzero"`
	FailuresInARow int                   `json:"failuresInARow"`
	Since          string                `json:"since"`
	SampleAnswer   string                `json:"sampleAnswer,omitzero"`
	Reason         domain.DisabledReason `json:"reason,omitzero"`
	EventID        string                `json:"eventId,omitzero"`
	DeliveryID     domain.DeliveryID     `json:"deliveryId,omitzero"`
	LeftOut        int64                 `json:"leftOut,omitzero"`
	Link           string                `json:"link"`
}

// stamp is the form of times in alerts.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// alert makes the event that reports a transition. Its id and its time follow from the transition
// alone, so a repeat makes no second alert.
func (t *transition) alert(hook *alertedHook, publicURL string) (domain.Event, error) {
	data := alertData{
		WebhookID: t.webhook, Host: hostOf(hook.url), Class: t.answer.Class, StatusCode: t.answer.Status,
		FailuresInARow: t.failures, Since: t.since.UTC().Format(stamp), SampleAnswer: sampleOf(t.answer.Body),
		Reason: t.reason, EventID: t.event, DeliveryID: t.delivery, LeftOut: t.leftOut,
		Link: publicURL + "/console/webhooks/" + string(t.webhook),
	}
	body, err := json.Marshal(data)
	if err != nil {
		return domain.Event{}, fmt.Errorf("make an alert: %w", err)
	}
	e := envelope.Event{ID: t.id(hook.account), Type: t.kind, Timestamp: t.receivedAt().Format(stamp), Data: body}
	return domain.Event{
		Account: hook.account, ID: e.ID, Type: e.Type, Timestamp: e.Timestamp, Payload: e.Payload(), ReceivedAt: t.receivedAt(),
	}, nil
}

// receivedAt returns the time at which the alert counts as accepted.
func (t *transition) receivedAt() time.Time { return t.at.UTC().Truncate(time.Millisecond) }

// id returns evt_ and the 32 digits of a UUID of version 7 with a hash in place of the random part.
func (t *transition) id(account string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{account, string(t.kind), string(t.webhook), t.key}, "\x00")))
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(t.at.UnixMilli())<<16)
	copy(raw[6:], sum[:10])
	raw[6] = raw[6]&0x0f | 0x70
	raw[8] = raw[8]&0x3f | 0x80
	return "evt_" + hex.EncodeToString(raw[:])
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

func sampleOf(body string) string {
	body = plainText(body)
	if len(body) > MaxSampleAnswer {
		body = strings.ToValidUTF8(body[:MaxSampleAnswer], "") // the cut may be inside a character
	}
	return body
}
