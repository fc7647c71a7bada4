package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/auditlog"
)

const (
	choicePath = oidcPath + "/choice"
	// choicePage is the number of accounts or consumers on a page of choices.
	choicePage = 20
	maxSearch  = 128
)

// signInPerson opens a session for the consumer that the person manages, if there is only one. If there are
// several, or an invitation to another one, the person has to choose. So an invitation takes no access from
// anybody, and no person is signed in to an account that is new to them without being asked.
func (c *Console) signInPerson(p *Page, who person, next string) error {
	accounts, err := c.Managers.ManagedAccounts(p.Context(), who.managing(), access.ManagedFilter{Limit: 2})
	if err != nil {
		return err
	}
	switch {
	case len(accounts) == 0:
		return p.refused("You are signed in, but you are no manager of a consumer here. Whoever holds an admin key can invite " + Visible(who.name()) + " as one.")
	case len(accounts) == 1 && accounts[0].Only != nil:
		if err := p.openFresh(managerSession(accounts[0].Only, who), nil); err != nil {
			return err
		}
		return p.Redirect(next)
	}
	text, err := json.Marshal(who)
	if err != nil {
		return err
	}
	token := random()
	choice := access.Session{Hash: hashOf(token), Kind: access.KindChoice, Person: string(text), Address: edge.Of(p.Request).Address, UserAgent: cut(p.Request.UserAgent())}
	if _, err := c.Sessions.OpenSession(p.Context(), choice, oidcTime, access.Replaced{}); err != nil {
		return err
	}
	p.keep(choiceCookie, token, "", oidcTime)
	return p.Redirect(choicePath)
}

func managerSession(m *access.Managed, who person) access.Session {
	return access.Session{Account: m.Account, ManagerID: m.ManagerID, Person: who.name()}
}

// Choice is the data of the page on which a person chooses an account or, with Account, a consumer of that
// account to sign in for. Consumers that the person is only invited to come last.
type Choice struct {
	Person, Account, Search string
	Accounts                []access.ManagedAccount
	Consumers               []access.Managed
	First, Next             string // links to other pages of the list; empty: there is none
}

// ChoiceEntry is one line of a choice.
type ChoiceEntry struct {
	Name      string
	ManagerID string // id to sign in for a consumer
	Link      string // link to the consumers of an account
}

// Managed returns the consumers that one button signs in for.
func (c *Choice) Managed() (list []ChoiceEntry) {
	for _, a := range c.Accounts {
		if m := a.Only; m != nil {
			list = append(list, ChoiceEntry{Name: a.Account + " · " + m.Bucket + " / " + m.Consumer, ManagerID: m.ManagerID})
		}
	}
	for i := range c.Consumers {
		if m := &c.Consumers[i]; !m.Invited {
			list = append(list, ChoiceEntry{Name: m.Bucket + " / " + m.Consumer, ManagerID: m.ManagerID})
		}
	}
	return list
}

// Several returns the accounts in which the person manages several consumers.
func (c *Choice) Several() (list []ChoiceEntry) {
	for _, a := range c.Accounts {
		if a.Only != nil {
			continue
		}
		var counts []string
		for _, of := range []struct {
			number int
			one    string
		}{{a.Consumers, "consumer"}, {a.Invitations, "invitation"}} {
			switch {
			case of.number == 1:
				counts = append(counts, "1 "+of.one)
			case of.number > 1:
				counts = append(counts, fmt.Sprintf("%d %ss", of.number, of.one))
			}
		}
		to := Choice{Account: a.Account, Search: c.Search}
		list = append(list, ChoiceEntry{Name: a.Account + " · " + strings.Join(counts, ", "), Link: to.at("")})
	}
	return list
}

// Invitations returns the consumers that the person is only invited to.
func (c *Choice) Invitations() (list []access.Managed) {
	for _, m := range c.Consumers {
		if m.Invited {
			list = append(list, m)
		}
	}
	return list
}

// Clear returns the link without a search.
func (c *Choice) Clear() string { return (&Choice{Account: c.Account}).at("") }

// None reports whether there is nothing to choose from.
func (c *Choice) None() bool { return len(c.Accounts)+len(c.Consumers) == 0 }

// Long reports whether the list is long enough for a search.
func (c *Choice) Long() bool {
	return c.Search != "" || c.First != "" || c.Next != "" || len(c.Accounts)+len(c.Consumers) >= choicePage/2
}

// choosing returns the person that is about to choose, and the hash of the choice. The error errAnswered
// means that the request is already answered: the time to choose is over.
func (c *Console) choosing(p *Page) (who person, hash []byte, err error) {
	who, hash, err = c.chooser(p)
	if !errors.Is(err, domain.ErrNotFound) {
		return who, hash, err
	}
	if err := p.refused("The ten minutes to choose are over. Begin again."); err != nil {
		return who, nil, err
	}
	return who, nil, errAnswered
}

func (c *Console) chooser(p *Page) (who person, hash []byte, err error) {
	token, ok := p.kept(choiceCookie, "")
	if !ok {
		return who, nil, domain.ErrNotFound
	}
	hash = hashOf(token)
	choice, _, err := c.Sessions.FindSession(p.Context(), hash)
	if err != nil {
		return who, nil, err
	}
	if choice.Kind != access.KindChoice || !p.Now().Before(choice.ExpiresOn) {
		return who, nil, domain.ErrNotFound
	}
	if err := json.Unmarshal([]byte(choice.Person), &who); err != nil {
		return who, nil, fmt.Errorf("read choice: %w", err)
	}
	return who, hash, nil
}

// choices shows a page of the choices.
func (c *Console) choices(p *Page) error {
	who, _, err := c.choosing(p)
	if err != nil {
		return err
	}
	view := Choice{Person: who.name(), Account: p.Query("account"), Search: domain.CutText(strings.TrimSpace(p.Query("q")), maxSearch)}
	f := access.ManagedFilter{Search: view.Search, After: p.Query("after"), Limit: choicePage + 1}
	last := ""
	if view.Account == "" {
		if view.Accounts, err = c.Managers.ManagedAccounts(p.Context(), who.managing(), f); err != nil {
			return err
		}
		if len(view.Accounts) == 1 && f.After == "" && f.Search == "" {
			view.Account, view.Accounts = view.Accounts[0].Account, nil
		} else if len(view.Accounts) > choicePage {
			view.Accounts = view.Accounts[:choicePage]
			last = view.Accounts[choicePage-1].Cursor()
		}
	}
	if view.Account != "" {
		if view.Consumers, err = c.Managers.ManagedConsumers(p.Context(), who.managing(), view.Account, f); err != nil {
			return err
		}
		if len(view.Consumers) > choicePage {
			view.Consumers = view.Consumers[:choicePage]
			last = view.Consumers[choicePage-1].Cursor()
		}
	}
	if f.After != "" {
		view.First = view.at("")
	}
	if last != "" {
		view.Next = view.at(last)
	}
	return p.show(http.StatusOK, "choice.html", "For whom?", &view)
}

// at returns the link to the page after a cursor.
func (c *Choice) at(after string) string {
	query := url.Values{}
	for name, value := range map[string]string{"account": c.Account, "q": c.Search, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return choicePath + "?" + query.Encode()
}

// chosen returns the consumer that was posted. The person must be its manager, or be invited to it, now.
func (c *Console) chosen(p *Page, who person) (access.Managed, error) {
	form, err := p.formOf(maxSignIn)
	if err != nil {
		return access.Managed{}, err
	}
	m, err := c.Managers.FindManaged(p.Context(), who.managing(), strings.TrimSpace(form.Get("manager")))
	if errors.Is(err, domain.ErrNotFound) {
		return m, errNotManaged
	}
	return m, err
}

var errNotManaged = problem.New(problem.NotFound, "You are no manager of such a consumer, and not invited to it.")

// choose opens the session for the consumer that was chosen.
func (c *Console) choose(p *Page) error {
	who, hash, err := c.choosing(p)
	if err != nil {
		return err
	}
	m, err := c.chosen(p, who)
	if err == nil && m.Invited {
		err = errNotManaged
	}
	if err != nil {
		return err
	}
	return p.enterAs(&m, who, hash)
}

// enterAs ends a choice with the session that was chosen.
func (p *Page) enterAs(m *access.Managed, who person, choice []byte) error {
	if err := p.openFresh(managerSession(m, who), choice); err != nil {
		return err
	}
	p.drop(choiceCookie)
	return p.Redirect("/console")
}

// accept accepts an invitation and opens the session for its consumer.
func (c *Console) accept(p *Page) error {
	who, hash, err := c.choosing(p)
	if err != nil {
		return err
	}
	m, err := c.chosen(p, who)
	if err != nil {
		return err
	}
	if m.Invited { // otherwise it has been accepted in the meantime
		if err := c.Managers.AcceptInvitation(p.answering(&m), who.managing(), m.ManagerID); err != nil {
			return err
		}
	}
	return p.enterAs(&m, who, hash)
}

// decline removes an invitation, and leads back to the remaining choices.
func (c *Console) decline(p *Page) error {
	who, _, err := c.choosing(p)
	if err != nil {
		return err
	}
	m, err := c.chosen(p, who)
	if err == nil && !m.Invited {
		err = errNotManaged
	}
	if err == nil {
		err = c.Managers.DeclineInvitation(p.answering(&m), who.managing(), m.ManagerID)
	}
	if err != nil {
		return err
	}
	return p.Redirect(choicePath)
}

// answering returns the context for the answer to an invitation, for the audit log of the account.
func (p *Page) answering(m *access.Managed) context.Context {
	return auditlog.WithCaller(p.Context(), domain.Caller{
		Account: m.Account, Sub: m.Bucket + "/" + m.Consumer, Type: apikey.TypeManager, KeyID: m.ManagerID, RequestID: p.RequestID,
		Address: edge.Of(p.Request).Address, UserAgent: cut(p.Request.UserAgent()), Method: p.Request.Method, Route: p.route.Path,
	})
}
