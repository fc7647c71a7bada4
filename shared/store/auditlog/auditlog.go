package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
)

// The actions of the audit log.
const (
	ActionCreateAccount  = "create-account"
	ActionCreateAdminKey = "create-admin-key"
	ActionCreateProject  = "create-project"
	ActionCreateBucket   = "create-bucket"
	ActionUpdateBucket   = "update-bucket"
	ActionDeleteBucket   = "delete-bucket"
	ActionCreateConsumer = "create-consumer"
	ActionUpdateConsumer = "update-consumer"
	ActionDeleteConsumer = "delete-consumer"
	ActionCreateKey      = "create-key"
	ActionCreateKeys     = "create-keys"
	ActionUpdateKey      = "update-key"
	ActionDeleteKey      = "delete-key"
	ActionRollKeys       = "roll-keys"
	ActionCreateManager  = "create-manager"
	ActionDeleteManager  = "delete-manager"

	ActionCreateWebhook = "create-webhook"
	ActionUpdateWebhook = "update-webhook"
	ActionDeleteWebhook = "delete-webhook"
	ActionRotateSecret  = "rotate-secret"
	ActionTestWebhook   = "test-webhook"
	ActionReplayWebhook = "replay-webhook"
	ActionRetryDelivery = "retry-delivery"
)

// The types of what the actions are done to.
const (
	ResourceAccount  = "account"
	ResourceProject  = "project"
	ResourceBucket   = "bucket"
	ResourceConsumer = "consumer"
	ResourceKey      = "key"
	ResourceManager  = "manager"
	ResourceWebhook  = "webhook"
	ResourceDelivery = "delivery"
	ResourceReplay   = "replay"
)

// rotateRoute is how the route ends whose update of a webhook is a rotation.
const rotateRoute = "/rotate-secret"

// auditText bounds, in bytes, each text of an entry that comes from a caller.
const auditText = 512

type callerKey struct{}

// WithCaller returns a context whose changes are written to the audit log, each in its own
// transaction, as made by c.
func WithCaller(ctx context.Context, c domain.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) (domain.Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(domain.Caller)
	return c, ok
}

// note writes a change to the audit log of account (empty: the caller's), when the context
// has a caller.
func (s *Store) note(ctx context.Context, tx *gorm.DB, action, account string, resources ...domain.Resource) error {
	caller, ok := callerOf(ctx)
	if !ok {
		return nil
	}
	if account == "" {
		account = caller.Account
	}
	return s.insertAudit(tx, domain.AuditEntry{Account: account, Action: action, Caller: caller, Resources: resources, Success: true})
}

// Audit writes entries of their own: of changes that were refused. Refusals of the same caller,
// action and error within a minute are one entry, which has the time and all else of the
// first, and counts. Ids are the store's, and the time of an entry that has none.
func (s *Store) Audit(ctx context.Context, entries ...domain.AuditEntry) error {
	rows := make([]auditRow, 0, len(entries))
	at := map[string]int{}
	for _, e := range entries {
		row, err := s.auditRow(e)
		if err != nil {
			return wrap("write audit entries", err)
		}
		if i, ok := at[row.ID]; ok {
			rows[i].Count += row.Count
			continue
		}
		at[row.ID] = len(rows)
		rows = append(rows, row)
	}
	// In one order, so that two who write the same entries do not wait for each other.
	slices.SortFunc(rows, func(a, b auditRow) int { return strings.Compare(a.ID, b.ID) })
	added := clause.OnConflict{
		Columns:   []clause.Column{{Name: "id"}},
		DoUpdates: clause.Assignments(map[string]any{"count": gorm.Expr("audit_log.count + excluded.count")}),
	}
	return wrap("write audit entries", s.tx(ctx, func(tx *gorm.DB) error {
		return tx.Clauses(added).CreateInBatches(rows, auditBatch).Error
	}))
}

// auditBatch bounds the rows of one statement that inserts entries.
const auditBatch = 500

func (s *Store) insertAudit(tx *gorm.DB, e domain.AuditEntry) error {
	row, err := s.auditRow(e)
	if err != nil {
		return err
	}
	if err := tx.Create(&row).Error; err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	return nil
}

func (s *Store) auditRow(e domain.AuditEntry) (auditRow, error) {
	if e.At.IsZero() {
		e.At = s.clock()
	}
	kept := make([]auditResource, len(e.Resources))
	for i, r := range e.Resources {
		kept[i] = auditResource{auditable(r.Type), auditable(r.ID), auditable(r.Name)}
	}
	resources, err := json.Marshal(kept)
	if err != nil {
		return auditRow{}, fmt.Errorf("encode resources: %w", err)
	}
	c := e.Caller
	row := auditRow{
		At: instantOf(e.At), Account: auditable(e.Account), Action: auditable(e.Action),
		Sub: auditable(c.Sub), Type: auditable(c.Type), KeyID: auditable(c.KeyID), RequestID: auditable(c.RequestID),
		Address: auditable(c.Address), UserAgent: auditable(c.UserAgent), Method: auditable(c.Method), Route: auditable(c.Route),
		Resources: string(resources), Success: e.Success, Error: auditable(e.Error), Count: max(1, e.Count),
	}
	if e.Success {
		row.ID, err = newRequestID()
	} else {
		row.ID = refusalID(row, e.At)
	}
	return row, err
}

// refusalID returns the id that all refusals have which are one entry, whichever process
// writes them: a UUID of version 8 with the minute and a hash of what they have in common.
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

// auditResource is a resource as it lies in the row.
type auditResource struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// auditable returns text as both databases keep it, and not more of it than is bounded: a
// header of the caller must not be why a change fails.
func auditable(text string) string {
	if len(text) > auditText {
		text = text[:auditText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// updateAction tells what an update of a webhook is: a rotation when the caller asked for
// one.
func updateAction(ctx context.Context) string {
	if caller, ok := callerOf(ctx); ok && strings.HasSuffix(caller.Route, rotateRoute) {
		return ActionRotateSecret
	}
	return ActionUpdateWebhook
}

func webhookResource(id domain.WebhookID) domain.Resource {
	return domain.Resource{Type: ResourceWebhook, ID: string(id)}
}

func deliveryResource(id domain.DeliveryID) domain.Resource {
	return domain.Resource{Type: ResourceDelivery, ID: string(id)}
}

// AuditFilter selects entries of an account.
type AuditFilter struct {
	Account string
	Action  string    // empty: any
	Actor   string    // the caller's sub; empty: any
	Since   time.Time // inclusive; zero: from the first
	Until   time.Time // exclusive; zero: to the last
	Success *bool     // nil: either
	Page
}

// ListAudit returns entries, newest first, and how many there are.
func (s *Store) ListAudit(ctx context.Context, f AuditFilter) ([]domain.AuditEntry, int, error) {
	if !storable(f.Account, f.Action, f.Actor) {
		return nil, 0, nil
	}
	var entries []domain.AuditEntry
	var total int64
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		query := f.narrow(tx.Model(&auditRow{}))
		if err := query.Session(&gorm.Session{}).Count(&total).Error; err != nil {
			return err
		}
		var rows []auditRow
		err := query.Session(&gorm.Session{}).Order("at DESC, id DESC").Limit(f.Limit).Offset(f.Offset).Find(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			e, err := row.domain()
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, 0, wrap("list audit entries", err)
	}
	return entries, int(total), nil
}

func (f AuditFilter) narrow(query *gorm.DB) *gorm.DB {
	query = query.Where("account = ?", f.Account)
	if f.Action != "" {
		query = query.Where("action = ?", f.Action)
	}
	if f.Actor != "" {
		query = query.Where("sub = ?", f.Actor)
	}
	if !f.Since.IsZero() {
		query = query.Where("at >= ?", instantOf(f.Since))
	}
	if !f.Until.IsZero() {
		query = query.Where("at < ?", instantOf(f.Until))
	}
	if f.Success != nil {
		query = query.Where("success = ?", *f.Success)
	}
	return query
}

func (r auditRow) domain() (domain.AuditEntry, error) {
	e := domain.AuditEntry{
		ID: r.ID, At: r.At.time(), Account: r.Account, Action: r.Action, Success: r.Success, Error: r.Error, Count: r.Count,
		Caller: domain.Caller{
			Account: r.Account, Sub: r.Sub, Type: r.Type, KeyID: r.KeyID, RequestID: r.RequestID,
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
