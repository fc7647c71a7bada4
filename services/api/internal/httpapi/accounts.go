package httpapi

import (
	"waybill.dev/services/api/internal/auth"
	"waybill.dev/shared/domain"
)

const maxAccountName = 64

type accountView struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	CreatedOn *string `json:"createdOn"`
	// Key is an admin key of a new account, shown when it is made.
	Key string `json:"key,omitzero"`
}

func viewAccount(a domain.Account) accountView {
	return accountView{ID: a.ID, Name: a.Name, CreatedOn: stamp(a.CreatedOn)}
}

// listAccounts shows all accounts to the bootstrap key, and to others their own.
func (s *server) listAccounts(c *call) error {
	q := c.query()
	page := readPage(q)
	if err := q.Err(); err != nil {
		return err
	}
	if c.principal.Type == auth.TypeBootstrap {
		accounts, total, err := s.Store.ListAccounts(c.ctx(), page)
		if err != nil {
			return err
		}
		return answerList(c, page, total, accounts, viewAccount)
	}
	account, err := s.Store.GetAccount(c.ctx(), c.principal.Account)
	if err != nil {
		return err
	}
	accounts := []domain.Account{account}
	return answerList(c, page, len(accounts), accounts[min(page.Offset, len(accounts)):], viewAccount)
}

func (s *server) createAccount(c *call) error {
	if c.principal.Type != auth.TypeBootstrap {
		return errForbidden
	}
	name, err := c.nameBody(maxAccountName)
	if err != nil {
		return err
	}
	account, key, err := s.Store.CreateAccount(c.ctx(), name, s.Keys.NewKey())
	if s.changed(c, err) != nil {
		return taken(err, "There is an account of this name already.")
	}
	view := viewAccount(account)
	view.Key = key.Key.Reveal()
	return c.created(path(account.Name), view)
}
