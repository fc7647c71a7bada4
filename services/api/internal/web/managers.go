package web

import (
	"net/http"
	"net/mail"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

// Bounds of a manager's fields; RFC 5321 has no longer address.
const (
	maxEmail = 254
	maxSub   = 255
)

type managerView struct {
	ID        string  `json:"id"`
	CreatedOn *string `json:"createdOn"`
	Email     string  `json:"email"`
	Sub       string  `json:"sub"`
}

func viewManager(m domain.Manager) managerView {
	return managerView{ID: m.ID, CreatedOn: stamp(m.CreatedOn), Email: m.Email, Sub: m.Sub}
}

const badEmail = "must be an email address"

func readManager(f *input.Form) domain.Manager {
	f.Require("email", "sub")
	var m domain.Manager
	if email, ok := f.Text("email", 1, maxEmail); ok {
		if m.Email = email; !validEmail(email) {
			f.Fault(badEmail, "email")
		}
	}
	m.Sub, _ = f.Text("sub", 1, maxSub)
	return m
}

// validEmail tells whether text is a bare address, with nothing around it.
func validEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && len(text) <= maxEmail && address.Address == text && !strings.ContainsAny(text, " \t\r\n")
}

func (s *server) listManagers(c *call) error {
	q := c.query()
	ref, err := s.readRef(c, q, false)
	if err != nil {
		return err
	}
	page := readPage(q)
	if err := q.Err(); err != nil {
		return err
	}
	managers, total, err := s.Store.ListManagers(c.ctx(), ref, page)
	if err != nil {
		return err
	}
	return answerList(c, page, total, managers, viewManager)
}

func (s *server) createManager(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	f, _, err := c.form(false)
	if err != nil {
		return faults(q.Err(), err)
	}
	m := readManager(f)
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	made, err := s.Store.CreateManager(c.ctx(), ref, m)
	if err != nil {
		return taken(err, "The consumer has this manager already.")
	}
	return c.created(path(ref.Account, "key-buckets", ref.Bucket, "consumers", ref.Consumer, "managers", made.ID), viewManager(made))
}

func (s *server) getManager(c *call) error {
	q := c.query()
	ref, err := s.readRef(c, q, false)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	manager, err := s.Store.GetManager(c.ctx(), ref, c.Param("managerId"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, viewManager(manager))
}

func (s *server) deleteManager(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.Store.DeleteManager(c.ctx(), ref, c.Param("managerId")); err != nil {
		return err
	}
	return c.noContent()
}
