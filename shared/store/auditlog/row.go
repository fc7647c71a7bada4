package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// auditText bounds, in bytes, each text of an entry that comes from a caller.
const auditText = 512

func (l *Log) auditRow(e domain.AuditEntry) (auditRow, error) {
	if e.At.IsZero() {
		e.At = l.db.Now()
	}
	kept := store.All(e.Resources, func(r domain.Resource) auditResource {
		return auditResource{auditable(r.Type), auditable(r.ID), auditable(r.Name)}
	})
	resources, err := json.Marshal(kept)
	if err != nil {
		return auditRow{}, fmt.Errorf("encode resources: %w", err)
	}
	c := e.Caller
	row := auditRow{
		At: store.InstantOf(e.At), Account: auditable(e.Account), Action: auditable(e.Action),
		Sub: auditable(c.Sub), Type: auditable(c.Type), KeyID: auditable(c.KeyID), Session: auditable(c.Session), RequestID: auditable(c.RequestID),
		Address: auditable(c.Address), UserAgent: auditable(c.UserAgent), Method: auditable(c.Method), Route: auditable(c.Route),
		Resources: string(resources), Success: e.Success, Error: auditable(e.Error), Count: max(1, e.Count),
	}
	if e.Success {
		row.ID, err = store.NewUUID()
	} else {
		row.ID = refusalID(row, e.At)
	}
	return row, err
}

// refusalID returns the id of the entry that a refusal belongs to, the same in every process: a UUID
// of version 8 with the minute and a hash of the fields that the entry's refusals have in common.
func refusalID(row auditRow, at time.Time) string {
	minute := at.Truncate(time.Minute)
	h := sha256.New()
	for _, text := range []string{row.Account, row.Type, row.Sub, row.KeyID, row.Action, row.Error} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	var id uuid.UUID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(minute.UnixMilli()))
	copy(id[:6], ms[2:])
	copy(id[6:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

type auditRow struct {
	ID        string `gorm:"primaryKey"`
	At        store.Instant
	Account   string
	Action    string
	Sub       string
	Type      string
	KeyID     string
	Session   string
	RequestID string
	Address   string
	UserAgent string
	Method    string
	Route     string
	Resources string
	Success   bool
	Error     string
	Count     int
	Counted   bool // the entry is counted in audit_days
}

func (auditRow) TableName() string { return "audit_log" }

// auditResource is a resource in the form in which the row has it.
type auditResource struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// auditable returns text in a form that both databases can store, cut to auditText, so that no
// header of a caller can make a change fail.
func auditable(text string) string {
	if len(text) > auditText {
		text = text[:auditText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func (r auditRow) domain() (domain.AuditEntry, error) {
	e := domain.AuditEntry{
		ID: r.ID, At: r.At.Time(), Account: r.Account, Action: r.Action, Success: r.Success, Error: r.Error, Count: r.Count,
		Caller: domain.Caller{
			Account: r.Account, Sub: r.Sub, Type: r.Type, KeyID: r.KeyID, Session: r.Session, RequestID: r.RequestID,
			Address: r.Address, UserAgent: r.UserAgent, Method: r.Method, Route: r.Route,
		},
	}
	var kept []auditResource
	if err := json.Unmarshal([]byte(r.Resources), &kept); err != nil {
		return e, fmt.Errorf("decode resources of audit entry %s: %w", r.ID, err)
	}
	for _, k := range kept {
		e.Resources = append(e.Resources, domain.Resource{Type: k.Type, ID: k.ID, Name: k.Name})
	}
	return e, nil
}
