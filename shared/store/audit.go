package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// The actions of the audit log.
const (
	ActionCreateAccount  = "create-account"
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

// Audit writes an entry of its own: of a change that was refused. Its id is the store's,
// and its time when it has none.
func (s *Store) Audit(ctx context.Context, e domain.AuditEntry) error {
	return wrap("write audit entry", s.again(ctx, func() error { return s.insertAudit(s.write.WithContext(ctx), e) }))
}

func (s *Store) insertAudit(tx *gorm.DB, e domain.AuditEntry) error {
	id, err := newRequestID()
	if err != nil {
		return err
	}
	if e.At.IsZero() {
		e.At = s.clock()
	}
	kept := make([]auditResource, len(e.Resources))
	for i, r := range e.Resources {
		kept[i] = auditResource{auditable(r.Type), auditable(r.ID), auditable(r.Name)}
	}
	resources, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode resources: %w", err)
	}
	c := e.Caller
	row := auditRow{
		ID: id, At: instantOf(e.At), Account: auditable(e.Account), Action: auditable(e.Action),
		Sub: auditable(c.Sub), Type: auditable(c.Type), KeyID: auditable(c.KeyID), RequestID: auditable(c.RequestID),
		Address: auditable(c.Address), UserAgent: auditable(c.UserAgent), Method: auditable(c.Method), Route: auditable(c.Route),
		Resources: string(resources), Success: e.Success, Error: auditable(e.Error),
	}
	if err := tx.Create(&row).Error; err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	return nil
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
		ID: r.ID, At: r.At.time(), Account: r.Account, Action: r.Action, Success: r.Success, Error: r.Error,
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
