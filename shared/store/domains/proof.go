package domains

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/pipeline"
)

// Answer is the answer of DNS about a domain.
type Answer struct {
	// Known means that name servers have answered, even if there is no record. Only a known
	// answer can show that a proof is gone.
	Known bool
	// Proofs are the values of the TXT record.
	Proofs []string
	// Words say what is missing for a domain that waits; empty: nothing.
	Words []string
	// Link is the link to the page of custom domains, for alerts.
	Link string
}

// CheckResult is the result of an answer of DNS.
type CheckResult struct {
	Domain domain.CustomDomain
	// HeldByOther means that the account has shown its proof, but another account has the hostname.
	HeldByOther bool
	// Changed means that the hostname has passed to another account, or that there may be an alert.
	Changed bool
}

// NoteAnswer writes the answer of DNS about a domain. An account that shows its proof gets a hostname that no account
// has. If another account has the hostname and its proof is gone, that account is given notice. After
// domain.DomainNoticeTime the hostname passes, if neither proof has changed by then.
func (s *Domains) NoteAnswer(ctx context.Context, d domain.CustomDomain, answer Answer) (CheckResult, error) {
	noted, err := s.noteAnswer(ctx, d, answer)
	if errors.Is(err, domain.ErrConflict) { // another account was first, a moment ago
		noted, err = s.noteAnswer(ctx, d, answer)
	}
	if err == nil {
		noted.Domain, err = s.GetCustomDomain(ctx, d.Account, d.Hostname)
	}
	return noted, store.Wrap("note what DNS answered", err)
}

// domainCheck is one check of DNS for a domain, in a transaction.
type domainCheck struct {
	*Domains

	tx     *gorm.DB
	now    store.Instant
	answer Answer
	row    *domainRow // the domain
	holder *domainRow // the domain that has the hostname, perhaps row; nil: none has it
	rival  *domainRow // the domain that the hostname will pass to, perhaps row; nil: none
	result CheckResult
}

func (s *Domains) noteAnswer(ctx context.Context, d domain.CustomDomain, answer Answer) (noted CheckResult, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		l := &domainCheck{Domains: s, tx: tx, now: store.InstantOf(s.db.Now()), answer: answer}
		if len(answer.Proofs) > 0 { // there may be an alert
			if err := s.db.AddsEvents(tx); err != nil {
				return err
			}
		}
		if err := l.read(d); err != nil {
			return err
		}
		if l.row.ID != d.ID {
			return nil // the domain was made again
		}
		err := l.decideHolder(ctx)
		noted = l.result
		return err
	})
	return noted, err
}

// read locks the rows of the hostname, always in the same order: first that of the account that has it.
func (l *domainCheck) read(d domain.CustomDomain) (err error) {
	if l.holder, err = l.Domains.holder(l.tx, d.Hostname); err != nil {
		return err
	}
	l.row = l.holder
	if l.holder == nil || l.holder.ID != d.ID {
		row, err := l.getRow(l.tx, d.Account, d.Hostname, store.LockChange)
		if err != nil {
			return err
		}
		l.row = &row
	}
	if l.holder == nil || l.holder.NoticeAt == 0 { // without a notice the holder keeps the hostname
		return nil
	}
	if l.rival, err = l.nextHolder(d.Hostname); err == nil && l.rival != nil && l.rival.ID == l.row.ID {
		l.rival = l.row
	}
	return err
}

// holder locks and returns the row of the account that has a hostname; nil: no account has it.
func (s *Domains) holder(tx *gorm.DB, hostname string) (*domainRow, error) {
	return s.lockOne(tx, "hostname = ? AND verified_at IS NOT NULL AND removed_at IS NULL", hostname)
}

// nextHolder locks and returns the row of the account to which a hostname will pass; nil: there is none.
func (l *domainCheck) nextHolder(hostname string) (*domainRow, error) {
	return l.lockOne(l.tx, "hostname = ? AND notice_at IS NOT NULL AND verified_at IS NULL AND removed_at IS NULL", hostname)
}

func (s *Domains) lockOne(tx *gorm.DB, condition string, values ...any) (*domainRow, error) {
	var row domainRow
	result := s.db.Lock(tx, store.LockChange).Where(condition, values...).Limit(1).Find(&row)
	if result.Error != nil {
		return nil, fmt.Errorf("look for the hostname's account: %w", result.Error)
	}
	if result.RowsAffected == 0 {
		return nil, nil //nolint:nilnil // there is none, as said above
	}
	return &row, nil
}

func (l *domainCheck) hasProof(row *domainRow) bool {
	return slices.Contains(l.answer.Proofs, row.Token)
}

// decideHolder decides which account has the hostname.
func (l *domainCheck) decideHolder(ctx context.Context) error {
	l.row.CheckedAt = l.now
	if l.row != l.holder {
		l.row.setAnswers(l.answer.Words...)
	}
	switch wants := l.row != l.holder && l.hasProof(l.row); {
	case !l.answer.Known:
	case l.holder == nil && wants:
		return l.verify(ctx, l.row, auditlog.ActionVerifyDomain)
	case l.row == l.holder, wants, l.row == l.rival:
		return l.compareProofs(ctx, wants)
	}
	return l.saveRows(l.row)
}

// compareProofs compares the proof of the account that has the hostname with that of the account that wants it.
func (l *domainCheck) compareProofs(ctx context.Context, wants bool) error {
	has := l.hasProof(l.holder)
	if has {
		l.holder.ProvenAt = l.now
	}
	taken := wants
	switch {
	case l.rival == nil && wants && !has:
		l.rival, taken = l.row, false
		if err := l.giveNotice(ctx); err != nil {
			return err
		}
	case l.rival == nil:
	case has || !l.hasProof(l.rival):
		if err := l.endNotice(ctx); err != nil {
			return err
		}
	case l.now.Time().Sub(l.holder.NoticeAt.Time()) >= domain.DomainNoticeTime:
		return l.passHostname(ctx)
	case l.rival == l.row:
		taken = false
		l.rival.announcePass()
	}
	if taken {
		l.result.HeldByOther = true
		l.row.setAnswers(takenWords(has))
	}
	return l.saveRows(l.row, l.holder, l.rival)
}

func takenWords(has bool) string {
	if has {
		return "Another account has the hostname, and its proof is in the TXT record, too. If the hostname is yours, remove that value."
	}
	return "Another account asked for the hostname before, and its proof is in the TXT record, too. If the hostname is yours, remove that value."
}

// giveNotice gives notice to the account that has the hostname.
func (l *domainCheck) giveNotice(ctx context.Context) error {
	for _, row := range []*domainRow{l.holder, l.rival} {
		row.NoticeAt, row.NextCheckAt = l.now, store.InstantOf(l.now.Time().Add(domain.DomainLaterCheckInterval))
		if err := l.audit(ctx, auditlog.ActionContestDomain, row); err != nil {
			return err
		}
	}
	until := l.rival.announcePass()
	l.holder.setAnswers("The proof of this account is not in the TXT record any more, and another account has a newer one. Set the record again before " + until + ", or the hostname passes to that account.")
	l.result.Changed = true
	return l.alert(ctx, domain.DomainContested, domainAlert{Hostname: l.holder.Hostname, NoticeUntil: until, Link: l.answer.Link})
}

// announcePass sets the message for the account to which the hostname will pass, and returns the earliest time of that.
func (r *domainRow) announcePass() (until string) {
	until = r.NoticeAt.Time().Add(domain.DomainNoticeTime).Format(time.RFC3339)
	r.setAnswers("Another account has the hostname, and its proof is gone. The hostname passes to this account on " + until + " at the earliest, if this account's proof is in the TXT record until then and the other one is not.")
	return until
}

// endNotice takes a notice back: the proof of the account that has the hostname is there again, or that of the account that
// wants it is gone.
func (l *domainCheck) endNotice(ctx context.Context) error {
	for _, row := range []*domainRow{l.holder, l.rival} {
		row.NoticeAt = 0
		if err := l.audit(ctx, auditlog.ActionKeepDomain, row); err != nil {
			return err
		}
	}
	l.holder.setAnswers()
	switch {
	case l.hasProof(l.rival):
		l.rival.setAnswers(takenWords(true))
	case l.rival != l.row:
		l.rival.setAnswers("The proof of this account is not in the TXT record any more.")
	}
	return nil
}

// endOther ends the notice of the other account's domain when one of the two is deleted.
func (s *Domains) endOther(ctx context.Context, tx *gorm.DB, row *domainRow) error {
	other, err := s.lockOne(tx, "hostname = ? AND id <> ? AND notice_at IS NOT NULL AND removed_at IS NULL", row.Hostname, row.ID)
	if err != nil || other == nil {
		return err
	}
	l := &domainCheck{Domains: s, tx: tx, row: row}
	other.NoticeAt = 0
	other.setAnswers()
	if other.VerifiedAt != 0 { // this account keeps the hostname; otherwise no account has it
		if err := l.audit(ctx, auditlog.ActionKeepDomain, other); err != nil {
			return err
		}
	}
	return l.saveRows(other)
}

// passHostname passes the hostname on. The account that had it then has a domain that waits.
func (l *domainCheck) passHostname(ctx context.Context) error {
	lost := *l.holder
	if err := l.audit(ctx, auditlog.ActionMoveDomain, l.holder); err != nil {
		return err
	}
	if err := l.remove(ctx, l.tx, l.holder); err != nil { // before the other account's change, so that gateways learn of it first
		return err
	}
	lost.ID, lost.Version, lost.CreatedAt, lost.UpdatedAt, lost.LostAt = store.NewID(prefixID, idLength), l.holder.Version, l.now, l.now, l.now
	lost.VerifiedAt, lost.NoticeAt, lost.NextCheckAt = 0, 0, store.InstantOf(l.now.Time().Add(domain.DomainFirstCheckInterval))
	lost.setAnswers("The hostname has passed to another account, which has a newer proof.")
	if err := l.tx.Create(&lost).Error; err != nil {
		return fmt.Errorf("insert custom domain: %w", err)
	}
	// The errors of the authority were for that account. Its certificate belongs to Waybill, and stays.
	said := map[string]any{"error": "", "failures": 0, "retry_at": nil}
	if err := l.tx.Model(&stateRow{}).Where("hostname = ?", lost.Hostname).Updates(said).Error; err != nil {
		return fmt.Errorf("forget failures of the authority: %w", err)
	}
	if err := l.alert(ctx, domain.DomainMoved, domainAlert{Hostname: lost.Hostname, Link: l.answer.Link}); err != nil {
		return err
	}
	l.rival.setAnswers()
	l.rival.CheckedAt = l.now
	return l.verify(ctx, l.rival, auditlog.ActionMoveDomain)
}

// verify gives the hostname to the account of a row.
func (l *domainCheck) verify(ctx context.Context, row *domainRow, action string) error {
	row.VerifiedAt, row.UpdatedAt, row.ProvenAt, row.LostAt, row.NoticeAt = l.now, l.now, l.now, 0, 0
	d, err := row.domain()
	if err != nil {
		return err
	}
	row.NextCheckAt = store.InstantOf(d.NextCheck(l.now.Time()))
	l.result.Changed = true
	if err := l.audit(ctx, action, row); err != nil {
		return err
	}
	return l.saveRow(ctx, l.tx, row)
}

// setAnswers sets the message for the account about its domain.
func (r *domainRow) setAnswers(words ...string) { r.Answers = writeAnswers(words) }

// saveRows writes the columns of rows that a look may change and that gateways need not know. Rows may be nil, or the same.
func (l *domainCheck) saveRows(rows ...*domainRow) error {
	for i, row := range rows {
		if row == nil || slices.Contains(rows[:i], row) {
			continue
		}
		err := l.tx.Select("answers", "checked_at", "next_check_at", "proven_at", "notice_at").Updates(row).Error
		if err != nil {
			return fmt.Errorf("update row of custom domain: %w", err)
		}
	}
	return nil
}

// audit writes to the audit log of a row's account. If that is not the account of the checked domain, or if the check
// was not asked for, the caller is the maker of the row's domain.
func (l *domainCheck) audit(ctx context.Context, action string, row *domainRow) error {
	if _, ok := auditlog.CallerOf(ctx); !ok || row != l.row {
		ctx = auditlog.WithCaller(ctx, deployments.MadeBy(row.Account, row.CreatedBy, row.CreatedKey))
	}
	return l.auditChange(ctx, l.tx, action, row)
}

// domainAlert is the data of an alert about a hostname.
type domainAlert struct {
	Hostname    string `json:"hostname"`
	NoticeUntil string `json:"noticeUntil,omitzero"`
	Link        string `json:"link"`
}

// alert adds an alert for the account that has the hostname.
func (l *domainCheck) alert(ctx context.Context, kind domain.EventType, data domainAlert) error {
	return pipeline.AddAlert(ctx, l.db, l.tx, l.holder.Account, kind, data)
}
