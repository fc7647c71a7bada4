package web

import (
	"net/http"

	"waybill.dev/shared/apikey"
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
	if c.principal.Type == apikey.TypeBootstrap {
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

// getAccount shows any account to the bootstrap key, and to others their own.
func (s *server) getAccount(c *call) error {
	name, err := s.anyAccount(c)
	if err != nil {
		return err
	}
	if err := c.query().Err(); err != nil {
		return err
	}
	account, err := s.Store.GetAccount(c.ctx(), name)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, viewAccount(account))
}

// anyAccount is account for what the bootstrap key may do to every account.
func (s *server) anyAccount(c *call) (string, error) {
	if c.principal.Type == apikey.TypeBootstrap {
		return c.Param("accountName"), nil
	}
	return s.account(c)
}

// createAdminKey helps an account whose admin keys are all lost.
func (s *server) createAdminKey(c *call) error {
	name, err := s.anyAccount(c)
	if err != nil {
		return err
	}
	if c.principal.Type != apikey.TypeBootstrap {
		return errForbidden
	}
	queryErr := c.query().Err()
	f, _, err := c.form(true)
	if err != nil {
		return faults(queryErr, err)
	}
	if err := faults(queryErr, f.Err()); err != nil {
		return err
	}
	key, err := s.Store.CreateAdminKey(c.ctx(), name, s.Keys.NewKey())
	if s.changed(c, err) != nil {
		return taken(err, "The account's bucket or consumer admin has just been made by another request. Try again.")
	}
	return c.answer(http.StatusCreated, struct {
		Key string `json:"key"`
	}{key.Key.Reveal()})
}

func (s *server) createAccount(c *call) error {
	if c.principal.Type != apikey.TypeBootstrap {
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
