package access

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/keyholders"
)

// Person is a person whom an identity provider has signed in. Consumers name their managers by one of the two fields.
type Person struct {
	Sub   string
	Email string // verified by the provider; empty: not verified
}

// Managed is a consumer that a person manages, or is invited to manage.
type Managed struct {
	ManagerID                 string
	Account, Bucket, Consumer string
	Invited                   bool   // the person has not accepted the invitation yet
	InvitedBy                 string // the inviting caller, by the name in the audit log; empty: not known
	InvitedOn                 time.Time
}

// ManagedAccount is an account with consumers that a person manages, or is invited to manage.
type ManagedAccount struct {
	Account                string
	Consumers, Invitations int
	// Only is the consumer, if there is exactly one and the person manages it; nil otherwise.
	Only *Managed
}

// ManagedFilter selects a part of the consumers that a person manages.
type ManagedFilter struct {
	Search string // a part of the name of an account, a bucket or a consumer; empty: all
	After  string // Cursor of the last entry before the page; empty: from the first
	Limit  int
}

// Cursor returns the ManagedFilter.After for the entries after m.
func (m *Managed) Cursor() string {
	return strings.Join([]string{place(m.Invited), m.Bucket, m.Consumer}, "/")
}

// Cursor returns the ManagedFilter.After for the accounts after m.
func (m *ManagedAccount) Cursor() string { return place(m.Consumers == 0) + "/" + m.Account }

// place returns the first part of a sort key: consumers that the person is only invited to come last.
func place(invited bool) string {
	if invited {
		return "1"
	}
	return "0"
}

// ofPerson is the condition for the rows of key_managers that name a person. Its parameters are the Sub and the Email.
const ofPerson = "((m.sub = ? AND m.sub <> '') OR (lower(m.email) = ? AND m.email <> ''))"

// managed has a row for each consumer that a person manages or is invited to manage. A consumer may name one
// person twice: one that was accepted is enough.
const managed = `SELECT b.account, b.name AS bucket, c.name AS consumer, min(m.id) AS named,
	min(CASE WHEN m.accepted_at IS NOT NULL THEN m.id END) AS accepted, min(m.invited_by) AS invited_by, min(m.created_at) AS invited_at
	FROM key_managers m JOIN key_consumers c ON c.id = m.consumer_id JOIN key_buckets b ON b.id = c.bucket_id
	WHERE ` + ofPerson + ` GROUP BY b.account, b.name, c.name`

// found is the condition for ManagedFilter.Search.
const found = "(account LIKE ? ESCAPE '!' OR bucket LIKE ? ESCAPE '!' OR consumer LIKE ? ESCAPE '!')"

func (w Person) values() []any { return []any{w.Sub, domain.FoldEmail(w.Email)} }

func (f *ManagedFilter) values() []any {
	pattern := store.Pattern(strings.ToLower(f.Search)) // names have no upper case
	return []any{pattern, pattern, pattern}
}

// cursor returns the parts of After.
func (f *ManagedFilter) cursor(parts int) []any {
	values := make([]any, parts)
	given := strings.SplitN(f.After, "/", parts)
	for i := range values {
		values[i] = ""
		if i < len(given) {
			values[i] = given[i]
		}
	}
	return values
}

// ManagedAccounts returns the accounts with consumers that a person manages, in the order of their names, then those
// to which the person is only invited.
func (a *Access) ManagedAccounts(ctx context.Context, who Person, f ManagedFilter) ([]ManagedAccount, error) {
	if !store.Storable(who.Sub, who.Email, f.Search, f.After) {
		return nil, nil
	}
	var rows []struct {
		Account, Bucket, Consumer string
		Accepted                  *string
		Managed, Named            int
	}
	const invited = "CASE WHEN count(accepted) > 0 THEN '0' ELSE '1' END"
	err := a.db.Reading(ctx).Raw(`SELECT account, min(bucket) AS bucket, min(consumer) AS consumer, min(accepted) AS accepted, count(accepted) AS managed, count(*) AS named
		FROM (`+managed+`) AS mine WHERE `+found+` GROUP BY account HAVING (`+invited+`, account) > (?, ?) ORDER BY `+invited+`, account LIMIT ?`,
		append(append(append(who.values(), f.values()...), f.cursor(2)...), f.Limit)...).Scan(&rows).Error
	if err != nil {
		return nil, store.Wrap("list managed accounts", err)
	}
	list := make([]ManagedAccount, len(rows))
	for i, row := range rows {
		list[i] = ManagedAccount{Account: row.Account, Consumers: row.Managed, Invitations: row.Named - row.Managed}
		if row.Named == 1 && row.Accepted != nil {
			list[i].Only = &Managed{ManagerID: *row.Accepted, Account: row.Account, Bucket: row.Bucket, Consumer: row.Consumer}
		}
	}
	return list, nil
}

type managedRow struct {
	Account, Bucket, Consumer, Named string
	Accepted                         *string
	InvitedBy                        string
	InvitedAt                        store.Instant
}

func (r *managedRow) managed() Managed {
	m := Managed{
		ManagerID: r.Named, Account: r.Account, Bucket: r.Bucket, Consumer: r.Consumer,
		Invited: r.Accepted == nil, InvitedBy: r.InvitedBy, InvitedOn: r.InvitedAt.Time(),
	}
	if r.Accepted != nil {
		m.ManagerID = *r.Accepted
	}
	return m
}

// ManagedConsumers returns the consumers of an account that a person manages, in the order of their names, then
// those to which the person is only invited.
func (a *Access) ManagedConsumers(ctx context.Context, who Person, account string, f ManagedFilter) ([]Managed, error) {
	if !store.Storable(who.Sub, who.Email, account, f.Search, f.After) {
		return nil, nil
	}
	var rows []managedRow
	const invited = "CASE WHEN accepted IS NULL THEN '1' ELSE '0' END"
	err := a.db.Reading(ctx).Raw(`SELECT account, bucket, consumer, named, accepted, invited_by, invited_at FROM (`+managed+`) AS mine WHERE account = ? AND `+found+` AND (`+invited+`, bucket, consumer) > (?, ?, ?)
		ORDER BY `+invited+`, bucket, consumer LIMIT ?`,
		append(append(append(append(who.values(), account), f.values()...), f.cursor(3)...), f.Limit)...).Scan(&rows).Error
	if err != nil {
		return nil, store.Wrap("list managed consumers", err)
	}
	list := make([]Managed, len(rows))
	for i := range rows {
		list[i] = rows[i].managed()
	}
	return list, nil
}

// ManagedHolders returns consumers that a person manages, in the order of their names, as holders of a key that has
// the id of the manager. An empty account, bucket or consumer matches any.
func (a *Access) ManagedHolders(ctx context.Context, who Person, account, bucket, consumer string, limit int) ([]domain.KeyHolder, error) {
	if !store.Storable(who.Sub, who.Email, account, bucket, consumer) {
		return nil, nil
	}
	conditions, values := []string{ofPerson, "m.accepted_at IS NOT NULL"}, who.values()
	for _, of := range []struct{ column, value string }{{"b.account", account}, {"b.name", bucket}, {"c.name", consumer}} {
		if of.value != "" {
			conditions = append(conditions, of.column+" = ?")
			values = append(values, of.value)
		}
	}
	var rows []struct{ Manager, Account, BucketID, Bucket, ConsumerID, Consumer, Scopes string }
	err := a.db.Reading(ctx).Raw(`SELECT min(m.id) AS manager, b.account, b.id AS bucket_id, b.name AS bucket, c.id AS consumer_id, c.name AS consumer, c.scopes
		FROM key_managers m JOIN key_consumers c ON c.id = m.consumer_id JOIN key_buckets b ON b.id = c.bucket_id
		WHERE `+strings.Join(conditions, " AND ")+` GROUP BY b.account, b.id, b.name, c.id, c.name, c.scopes ORDER BY b.account, b.name, c.name LIMIT ?`, append(values, limit)...).Scan(&rows).Error
	if err != nil {
		return nil, store.Wrap("find managed consumers", err)
	}
	holders := make([]domain.KeyHolder, len(rows))
	for i, row := range rows {
		holders[i] = domain.KeyHolder{
			KeyID: row.Manager, Account: row.Account, BucketID: row.BucketID, Bucket: row.Bucket,
			ConsumerID: row.ConsumerID, Consumer: row.Consumer, Scopes: keyholders.SplitScopes(row.Scopes),
		}
	}
	return holders, nil
}

// FindManaged returns the consumer that a person manages, or is invited to, by the id of a manager. ErrNotFound: there
// is no such manager, or it is another person.
func (a *Access) FindManaged(ctx context.Context, who Person, managerID string) (Managed, error) {
	var found Managed
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		m, c, b, err := whose(tx, who, managerID)
		found = Managed{
			ManagerID: m.ID, Account: b.Account, Bucket: b.Name, Consumer: c.Name,
			Invited: m.AcceptedAt.Time().IsZero(), InvitedBy: m.InvitedBy, InvitedOn: m.CreatedAt.Time(),
		}
		return err
	})
	return found, store.Wrap("find managed consumer", err)
}

// whose returns the manager with an id if it is the person, with the consumer and its bucket.
func whose(tx *gorm.DB, who Person, managerID string) (m managerRow, c consumerRow, b bucketRow, err error) {
	if !store.Storable(who.Sub, who.Email, managerID) {
		return m, c, b, domain.ErrNotFound
	}
	if err = tx.Table("key_managers AS m").Where("m.id = ? AND "+ofPerson, append([]any{managerID}, who.values()...)...).Take(&m).Error; err == nil {
		c, b, err = consumerOf(tx, m.ConsumerID)
	}
	return m, c, b, err
}

// AcceptInvitation makes an invited person a manager that counts. ErrNotFound: there is no such invitation.
func (a *Access) AcceptInvitation(ctx context.Context, who Person, managerID string) error {
	return a.answer(ctx, who, managerID, auditlog.ActionAcceptInvitation, func(open *gorm.DB) *gorm.DB {
		return open.Model(&managerRow{}).Update("accepted_at", store.InstantOf(a.db.Now()))
	})
}

// DeclineInvitation removes an invited person from a consumer. ErrNotFound: there is no such invitation.
func (a *Access) DeclineInvitation(ctx context.Context, who Person, managerID string) error {
	return a.answer(ctx, who, managerID, auditlog.ActionDeclineInvitation, func(open *gorm.DB) *gorm.DB {
		return open.Delete(&managerRow{})
	})
}

// answer changes the rows that invite a person to the consumer of a manager.
func (a *Access) answer(ctx context.Context, who Person, managerID, action string, answered func(open *gorm.DB) *gorm.DB) error {
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		m, c, b, err := whose(tx, who, managerID)
		if err != nil {
			return err
		}
		// The consumer is locked, so that it is not deleted in the meantime.
		if _, _, err := a.consumer(tx, ConsumerRef{Account: b.Account, Bucket: b.Name, Consumer: c.Name}, store.LockChange); err != nil {
			return err
		}
		open := tx.Where("accepted_at IS NULL AND id IN (SELECT m.id FROM key_managers m WHERE m.consumer_id = ? AND "+ofPerson+")",
			append([]any{m.ConsumerID}, who.values()...)...)
		result := answered(open)
		if result.Error != nil {
			return fmt.Errorf("change invitations: %w", result.Error)
		}
		if result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		if action == auditlog.ActionDeclineInvitation {
			if err := a.count(tx, b.Account, change{managers: -int(result.RowsAffected)}); err != nil {
				return err
			}
		}
		return a.audit.Note(ctx, tx, action, b.Account, bucketResource(b), domain.Resource{Type: auditlog.ResourceConsumer, ID: c.ID, Name: c.Name}, managerResource(managerID))
	})
	return store.Wrap("answer invitation", err)
}
