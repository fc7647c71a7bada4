// Package auditlog has the audit log: an entry for every change that a caller asked for, written in
// the transaction that makes the change, and an entry for every change that was refused.
package auditlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
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

	ActionAcceptInvitation  = "accept-invitation" // of a manager, by the person
	ActionDeclineInvitation = "decline-invitation"

	ActionCreateWebhook = "create-webhook"
	ActionUpdateWebhook = "update-webhook"
	ActionDeleteWebhook = "delete-webhook"
	ActionRotateSecret  = "rotate-secret"
	ActionTestWebhook   = "test-webhook"
	ActionReplayWebhook = "replay-webhook"
	ActionRetryDelivery = "retry-delivery"

	ActionAcknowledgeProblem = "acknowledge-problem" // of a webhook
	ActionReopenProblem      = "reopen-problem"

	ActionSetCursor    = "set-cursor" // of a webhook's feed
	ActionDeleteCursor = "delete-cursor"

	ActionRotateSigningKeys = "rotate-signing-keys"

	ActionRetryDeliveries = "retry-deliveries"
	ActionCancelJob       = "cancel-job"

	ActionUpdateProject    = "update-project"
	ActionUploadSource     = "create-deployment-source" // the permission to upload an archive
	ActionUploadArchive    = "upload-deployment-source" // the archive, with which a build begins
	ActionRedeploy         = "redeploy"                 // a new build of an archive that was uploaded before
	ActionActivateBuild    = "activate-build"           // by a gateway, in the name of the build's maker
	ActionDeleteDeployment = "delete-deployment"
	ActionCreateVariable   = "create-variable"
	ActionUpdateVariable   = "update-variable"
	ActionDeleteVariable   = "delete-variable"

	ActionCreateTunnel      = "create-tunnel"
	ActionRotateTunnelToken = "rotate-tunnel-token"
	ActionConfigureTunnel   = "configure-tunnel-services"
	ActionDeleteTunnel      = "delete-tunnel"

	ActionCreateClientCA = "create-client-mtls-ca-certificate"
	ActionUpdateClientCA = "update-client-mtls-ca-certificate"
	ActionDeleteClientCA = "delete-client-mtls-ca-certificate"

	ActionCreateDomain      = "create-custom-domain"
	ActionUpdateDomain      = "update-custom-domain"
	ActionDeleteDomain      = "delete-custom-domain"
	ActionVerifyDomain      = "verify-custom-domain"  // by hand, or when DNS was checked as a matter of routine
	ActionContestDomain     = "contest-custom-domain" // in both accounts: the hostname will pass from one to the other
	ActionKeepDomain        = "keep-custom-domain"    // in both accounts, except the one that deletes its domain: the hostname stays
	ActionMoveDomain        = "move-custom-domain"    // in both accounts: the hostname has passed
	ActionPutCertificate    = "put-custom-domain-certificate"
	ActionDeleteCertificate = "delete-custom-domain-certificate"

	ActionCreateMeter        = "create-meter"
	ActionUpdateMeter        = "update-meter"
	ActionDeleteMeter        = "delete-meter"
	ActionCreateFeature      = "create-feature"
	ActionArchiveFeature     = "archive-feature"
	ActionCreatePlan         = "create-plan"
	ActionUpdatePlan         = "update-plan"
	ActionPublishPlan        = "publish-plan"
	ActionArchivePlan        = "archive-plan"
	ActionDeletePlan         = "delete-plan"
	ActionSetSubscription    = "set-subscription"
	ActionDeleteSubscription = "delete-subscription"
)

// Actions returns every action, in the order above.
func Actions() []string {
	return []string{
		ActionCreateAccount, ActionCreateAdminKey, ActionCreateProject, ActionCreateBucket, ActionUpdateBucket,
		ActionDeleteBucket, ActionCreateConsumer, ActionUpdateConsumer, ActionDeleteConsumer, ActionCreateKey,
		ActionCreateKeys, ActionUpdateKey, ActionDeleteKey, ActionRollKeys, ActionCreateManager,
		ActionDeleteManager,
		ActionAcceptInvitation, ActionDeclineInvitation,
		ActionCreateWebhook, ActionUpdateWebhook, ActionDeleteWebhook, ActionRotateSecret, ActionTestWebhook,
		ActionReplayWebhook, ActionRetryDelivery,
		ActionAcknowledgeProblem, ActionReopenProblem,
		ActionSetCursor, ActionDeleteCursor,
		ActionRotateSigningKeys,
		ActionRetryDeliveries, ActionCancelJob,
		ActionUpdateProject, ActionUploadSource, ActionUploadArchive, ActionRedeploy, ActionActivateBuild,
		ActionDeleteDeployment, ActionCreateVariable, ActionUpdateVariable, ActionDeleteVariable,
		ActionCreateTunnel, ActionRotateTunnelToken, ActionConfigureTunnel, ActionDeleteTunnel,
		ActionCreateClientCA, ActionUpdateClientCA, ActionDeleteClientCA,
		ActionCreateDomain, ActionUpdateDomain, ActionDeleteDomain, ActionVerifyDomain, ActionContestDomain,
		ActionKeepDomain, ActionMoveDomain, ActionPutCertificate, ActionDeleteCertificate,
		ActionCreateMeter, ActionUpdateMeter, ActionDeleteMeter, ActionCreateFeature, ActionArchiveFeature,
		ActionCreatePlan, ActionUpdatePlan, ActionPublishPlan, ActionArchivePlan, ActionDeletePlan,
		ActionSetSubscription, ActionDeleteSubscription,
	}
}

// The types of the resources of actions.
const (
	ResourceAccount  = "account"
	ResourceProject  = "project"
	ResourceBucket   = "bucket"
	ResourceConsumer = "consumer"
	ResourceKey      = "key"
	ResourceManager  = "manager"
	ResourceWebhook  = "webhook"
	ResourceDelivery = "delivery"
	ResourceReplay   = "replay" // a job of the kind replay
	ResourceJob      = "job"

	ResourceCursor = "cursor"

	ResourceSigningKey = "signingKey"

	ResourceDeployment = "deployment"
	ResourceBuild      = "build"
	ResourceBranch     = "branch" // of a project
	ResourceVariable   = "variable"

	ResourceTunnel = "tunnel"

	ResourceDomain = "customDomain"

	ResourceClientCA = "clientCaCertificate"

	ResourceMeter        = "meter"
	ResourceFeature      = "feature"
	ResourcePlan         = "plan"
	ResourceSubscription = "subscription" // of a consumer
)

// Log reads and writes the table.
type Log struct{ db *store.Store }

// New returns the log of an open database.
func New(db *store.Store) *Log { return &Log{db: db} }

type callerKey struct{}

// WithCaller returns a context for changes that c makes. Each change is written to the audit log,
// in its own transaction.
func WithCaller(ctx context.Context, c domain.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller that WithCaller has set, if any.
func CallerOf(ctx context.Context) (domain.Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(domain.Caller)
	return c, ok
}

// Note writes a change to the audit log of account (empty: the caller's) if the context has a
// caller. tx is the transaction that makes the change.
func (l *Log) Note(ctx context.Context, tx *gorm.DB, action, account string, resources ...domain.Resource) error {
	caller, ok := CallerOf(ctx)
	if !ok {
		return nil
	}
	account = cmp.Or(account, caller.Account)
	return l.insert(tx, domain.AuditEntry{Account: account, Action: action, Caller: caller, Resources: resources, Success: true})
}

// Audit writes entries for changes that were refused. Refusals with the same caller, action and
// error within a minute are one entry: it has a count, and otherwise the time and data of the first
// refusal. The store sets the ids, and the time of an entry that has none.
func (l *Log) Audit(ctx context.Context, entries ...domain.AuditEntry) error {
	rows := make([]auditRow, 0, len(entries))
	at := map[string]int{}
	for _, e := range entries {
		row, err := l.auditRow(e)
		if err != nil {
			return store.Wrap("write audit entries", err)
		}
		if i, ok := at[row.ID]; ok {
			rows[i].Count += row.Count
			continue
		}
		at[row.ID] = len(rows)
		rows = append(rows, row)
	}
	// In one order, so that two processes that write the same entries do not wait for each other.
	slices.SortFunc(rows, func(a, b auditRow) int { return strings.Compare(a.ID, b.ID) })
	added := clause.OnConflict{
		Columns:   []clause.Column{{Name: "id"}},
		DoUpdates: clause.Assignments(map[string]any{"count": gorm.Expr("audit_log.count + excluded.count")}),
	}
	return store.Wrap("write audit entries", l.db.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Clauses(added).CreateInBatches(rows, auditBatch).Error
	}))
}

// auditBatch bounds the rows that one statement inserts.
const auditBatch = 500

func (l *Log) insert(tx *gorm.DB, e domain.AuditEntry) error {
	row, err := l.auditRow(e)
	if err != nil {
		return err
	}
	if err := tx.Create(&row).Error; err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	return nil
}

// AuditFilter selects entries of an account.
type AuditFilter struct {
	Account string
	Action  string    // empty: any
	Actor   string    // the caller's sub; empty: any
	Since   time.Time // inclusive; zero: from the first
	Until   time.Time // exclusive; zero: to the last
	Success *bool     // nil: either
	store.Page
}

// ListAudit returns entries, newest first, and how many there are.
func (l *Log) ListAudit(ctx context.Context, f AuditFilter) ([]domain.AuditEntry, int, error) {
	if !store.Storable(f.Account, f.Action, f.Actor) {
		return nil, 0, nil
	}
	var entries []domain.AuditEntry
	var total int64
	err := l.db.Snapshot(ctx, func(tx *gorm.DB) (err error) {
		if total, err = f.total(tx); err != nil {
			return err
		}
		var rows []auditRow
		if err := f.narrow(tx).Order("at DESC, id DESC").Limit(f.Limit).Offset(f.Offset).Find(&rows).Error; err != nil {
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
		return nil, 0, store.Wrap("list audit entries", err)
	}
	return entries, int(total), nil
}

func (f AuditFilter) narrow(query *gorm.DB) *gorm.DB { return f.withinTimes(f.where(query, "%s")) }

// where adds the filter's conditions to a query, except its times. form is the form of a condition: "%s", or "(%s) IS
// TRUE" to keep the database from choosing an index by that condition. The account's condition is always plain.
func (f AuditFilter) where(query *gorm.DB, form string) *gorm.DB {
	query = query.Where("account = ?", f.Account)
	if f.Action != "" {
		query = query.Where(fmt.Sprintf(form, "action = ?"), f.Action)
	}
	if f.Actor != "" {
		query = query.Where(fmt.Sprintf(form, "sub = ?"), f.Actor)
	}
	if f.Success != nil {
		query = query.Where(fmt.Sprintf(form, "success = ?"), *f.Success)
	}
	return query
}

func (f AuditFilter) withinTimes(query *gorm.DB) *gorm.DB {
	if !f.Since.IsZero() {
		query = query.Where("at >= ?", store.InstantOf(f.Since))
	}
	if !f.Until.IsZero() {
		query = query.Where("at < ?", store.InstantOf(f.Until))
	}
	return query
}
