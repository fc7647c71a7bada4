package deployments

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/counts"
)

// VariableRef names a variable of a branch.
type VariableRef struct{ Account, Project, Branch, Name string }

func (r VariableRef) storable() bool { return store.Storable(r.Account, r.Project, r.Branch, r.Name) }

// CreateVariable stores v; the caller has checked its project, and the store sets its times.
// ErrConflict: the branch has a variable with that name. ErrLimit: the branch has MaxVariables, or
// the account as many as it may (a domain.LimitError). ErrNotFound: there is no such account.
func (d *Deployments) CreateVariable(ctx context.Context, v domain.Variable) (domain.Variable, error) {
	ref := VariableRef{v.Account, v.Project, v.Branch, v.Name}
	var created domain.Variable
	err := d.changeVariables(ctx, ref, auditlog.ActionCreateVariable, func(tx *gorm.DB) (bool, error) {
		var count int64
		query := tx.Model(&variableRow{}).Where("account = ? AND project = ? AND branch = ?", v.Account, v.Project, v.Branch)
		if err := query.Count(&count).Error; err != nil {
			return false, fmt.Errorf("count variables: %w", err)
		}
		if count >= domain.MaxVariables {
			return false, fmt.Errorf("branch has %d variables: %w", count, domain.ErrLimit)
		}
		now := d.db.Now()
		row := variableRow{
			Account: v.Account, Project: v.Project, Branch: v.Branch, Name: v.Name, Secret: v.Secret,
			CreatedAt: store.InstantOf(now), UpdatedAt: store.InstantOf(now),
		}
		if err := d.sealVariable(&row, v.Value); err != nil {
			return false, err
		}
		if err := tx.Create(&row).Error; err != nil {
			return false, fmt.Errorf("insert variable: %w", err)
		}
		err := counts.Add(tx, now, v.Account, counts.Change{Kind: &d.variables, By: 1})
		if err == nil {
			created, err = d.showVariable(row)
		}
		return true, err
	})
	return created, store.Wrap("create variable", err)
}

// UpdateVariable sets a variable's value; nil: the value stays.
func (d *Deployments) UpdateVariable(ctx context.Context, ref VariableRef, value *domain.Secret) (domain.Variable, error) {
	var updated domain.Variable
	err := d.changeVariables(ctx, ref, auditlog.ActionUpdateVariable, func(tx *gorm.DB) (bool, error) {
		row, err := d.variable(tx, ref)
		if err != nil {
			return false, err
		}
		if value == nil {
			updated, err = d.showVariable(row)
			return false, err
		}
		before, unreadable := d.openVariable(row) // a variable that can't be opened can be replaced
		row.UpdatedAt = store.InstantOf(d.db.Now())
		if err := d.sealVariable(&row, *value); err != nil {
			return false, err
		}
		if err := tx.Select("sealed", "updated_at").Updates(&row).Error; err != nil {
			return false, fmt.Errorf("update variable row: %w", err)
		}
		updated, err = d.showVariable(row)
		return unreadable != nil || before.Value != *value, err
	})
	return updated, store.Wrap("update variable", err)
}

// DeleteVariable deletes a variable.
func (d *Deployments) DeleteVariable(ctx context.Context, ref VariableRef) error {
	return store.Wrap("delete variable", d.changeVariables(ctx, ref, auditlog.ActionDeleteVariable, func(tx *gorm.DB) (bool, error) {
		row, err := d.variable(tx, ref)
		if err != nil {
			return false, err
		}
		if err := tx.Delete(&row).Error; err != nil {
			return false, fmt.Errorf("delete variable row: %w", err)
		}
		return true, counts.Add(tx, d.db.Now(), ref.Account, counts.Change{Kind: &d.variables, By: -1})
	}))
}

// ListVariables returns a branch's own variables and how many there are. Secret ones have no value.
func (d *Deployments) ListVariables(ctx context.Context, account, project, branch string, page store.Page) ([]domain.Variable, int, error) {
	if !store.Storable(account, project, branch) {
		return nil, 0, nil
	}
	var variables []domain.Variable
	var total int
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		query := tx.Model(&variableRow{}).Where("account = ? AND project = ? AND branch = ?", account, project, branch)
		rows, n, err := store.ListPage[variableRow](query, page, store.Weight{})
		total = n
		if err != nil {
			return err
		}
		variables, err = all(rows, d.showVariable)
		return err
	})
	return variables, total, store.Wrap("list variables", err)
}

// VariablesOf returns the variables for a build of a branch, by name, secrets included: the branch's
// own ones and, for a preview, those of all previews with names that the branch does not use.
func (d *Deployments) VariablesOf(ctx context.Context, account, project, branch string, t domain.EnvironmentType) ([]domain.Variable, error) {
	if !store.Storable(account, project, branch) {
		return nil, nil
	}
	branches := []string{branch}
	if t == domain.Preview {
		branches = append(branches, domain.PreviewBranch)
	}
	var rows []variableRow
	query := d.db.Reading(ctx).Where("account = ? AND project = ? AND branch IN ?", account, project, branches)
	if err := query.Find(&rows).Error; err != nil {
		return nil, store.Wrap("read variables", err)
	}
	// Of variables with the same name, the branch's own comes first, because no branch begins with
	// ~ or a later character. The others are dropped.
	slices.SortFunc(rows, func(a, b variableRow) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Branch, b.Branch))
	})
	rows = slices.CompactFunc(rows, func(a, b variableRow) bool { return a.Name == b.Name })
	variables, err := all(rows, d.openVariable)
	return variables, store.Wrap("read variables", err)
}

// changeVariables runs change in a transaction, during which no other change of the account's
// variables runs. change reports whether a new build would differ.
func (d *Deployments) changeVariables(ctx context.Context, ref VariableRef, action string, change func(tx *gorm.DB) (differs bool, err error)) error {
	if !ref.storable() {
		return domain.ErrNotFound
	}
	return d.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := accounts.Take(d.db.Lock(tx, store.LockChange), ref.Account); err != nil {
			return err
		}
		differs, err := change(tx)
		if err != nil {
			return err
		}
		if differs {
			if err := markVariables(tx, ref, d.db.Now()); err != nil {
				return err
			}
		}
		return d.audit.Note(ctx, tx, action, ref.Account,
			domain.Resource{Type: auditlog.ResourceProject, Name: ref.Project},
			domain.Resource{Type: auditlog.ResourceBranch, Name: ref.Branch},
			domain.Resource{Type: auditlog.ResourceVariable, Name: ref.Name})
	})
}

// markVariables notes, on the deployments that use the variable, that their builds are older than
// its change. It also does so when no build has succeeded yet, because an open build may have read
// the variables already. Gateways need not learn of it: a build keeps its values.
func markVariables(tx *gorm.DB, ref VariableRef, now time.Time) error {
	query := tx.Model(&deploymentRow{}).Where("account = ? AND project = ? AND removed_at IS NULL", ref.Account, ref.Project)
	if ref.Branch == domain.PreviewBranch {
		query = query.Where("environment_type = ?", string(domain.Preview))
	} else {
		query = query.Where("branch = ?", ref.Branch)
	}
	if err := query.UpdateColumn("variables_changed_at", store.InstantOf(now)).Error; err != nil {
		return fmt.Errorf("mark deployments: %w", err)
	}
	return nil
}

func (d *Deployments) variable(tx *gorm.DB, ref VariableRef) (variableRow, error) {
	var row variableRow
	err := store.Unique(tx.Where("account = ? AND project = ? AND branch = ? AND name = ?", ref.Account, ref.Project, ref.Branch, ref.Name), &row)
	return row, err
}

func all(rows []variableRow, read func(variableRow) (domain.Variable, error)) ([]domain.Variable, error) {
	variables := make([]domain.Variable, len(rows))
	for i, row := range rows {
		var err error
		if variables[i], err = read(row); err != nil {
			return nil, err
		}
	}
	return variables, nil
}

// showVariable is openVariable for callers that must not see secrets.
func (d *Deployments) showVariable(row variableRow) (domain.Variable, error) {
	if row.Secret {
		return row.domain(), nil
	}
	return d.openVariable(row)
}

func (d *Deployments) openVariable(row variableRow) (domain.Variable, error) {
	v := row.domain()
	plain, err := d.db.Unseal(row.Sealed, variableSealData(row))
	if err != nil {
		return v, fmt.Errorf("open variable: %w", err)
	}
	v.Value = domain.Secret(plain)
	return v, nil
}

func (d *Deployments) sealVariable(row *variableRow, value domain.Secret) error {
	sealed, err := d.db.Seal([]byte(value.Reveal()), variableSealData(*row))
	if err != nil {
		return fmt.Errorf("seal variable: %w", err)
	}
	row.Sealed = sealed
	return nil
}

// variableSealData binds a sealed value to its row and column. The name of a branch contains no |.
func variableSealData(row variableRow) []byte {
	return []byte("gateway_variables|sealed|" + row.Account + "|" + row.Project + "|" + row.Branch + "|" + row.Name)
}
