package httpapi

import (
	"encoding/json"
	"net/http"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
)

type consumerView struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	CreatedOn   *string           `json:"createdOn"`
	UpdatedOn   *string           `json:"updatedOn"`
	Description string            `json:"description"`
	Tags        map[string]string `json:"tags"`
	Metadata    json.RawMessage   `json:"metadata"`
	Scopes      []domain.Scope    `json:"scopes"`
	// These are there when they were asked for, or have just been made.
	APIKeys  *[]keyView     `json:"apiKeys,omitzero"`
	Managers *[]managerView `json:"managers,omitzero"`
}

func viewConsumer(c domain.Consumer) consumerView {
	v := consumerView{
		ID: c.ID, Name: c.Name, CreatedOn: stamp(c.CreatedOn), UpdatedOn: stamp(c.UpdatedOn),
		Description: c.Description, Tags: c.Tags, Metadata: c.Metadata, Scopes: c.Scopes,
	}
	if len(v.Metadata) == 0 {
		v.Metadata = json.RawMessage("{}")
	}
	return v
}

// parts is what a reader of consumers wants to see beside them.
type parts struct {
	keys, managers bool
	format         keyFormat
}

func readParts(q *input.Query) parts {
	var p parts
	p.keys, _ = q.Bool("include-api-keys")
	p.managers, _ = q.Bool("include-managers")
	// An invited manager is one like all others here: the parameter is known, and adds none.
	_, _ = q.Bool("include-manager-invites")
	p.format = readKeyFormat(q)
	return p
}

// ofStore returns what has to be read for it.
func (p parts) ofStore() access.Parts {
	return access.Parts{Keys: p.keys, Secrets: p.keys && p.format == keyVisible, Managers: p.managers}
}

func (p parts) view(v access.ConsumerView) consumerView {
	view := viewConsumer(v.Consumer)
	if p.keys {
		keys := viewAll(v.Keys, func(k domain.APIKey) keyView { return viewKey(k, p.format) })
		view.APIKeys = &keys
	}
	if p.managers {
		managers := viewAll(v.Managers, viewManager)
		view.Managers = &managers
	}
	return view
}

func (s *server) listConsumers(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	q := c.query()
	filter := access.ConsumerFilter{Tags: q.Prefixed(tagPrefix), Page: readPage(q)}
	filter.ManagerEmail, _ = q.Text("manager-email")
	with := readParts(q)
	if err := q.Err(); err != nil {
		return err
	}
	bucket := c.Param("bucketName")
	if err := s.retrievable(c, account, bucket, with.format); err != nil {
		return err
	}
	views, total, err := s.Store.ListConsumers(c.ctx(), account, bucket, filter, with.ofStore())
	if err != nil {
		return err
	}
	for _, v := range views {
		if !with.ofStore().Secrets {
			break
		}
		if err := c.guard(v.Consumer); err != nil {
			return err
		}
	}
	return answerList(c, filter.Page, total, views, with.view)
}

// retrievable refuses to show keys in full where they are not kept so.
func (s *server) retrievable(c *call, account, bucket string, format keyFormat) error {
	if format != keyVisible {
		return nil
	}
	b, err := s.Store.GetBucket(c.ctx(), access.BucketRef{Account: account, Bucket: bucket})
	if err != nil {
		return err
	}
	if !b.Retrievable {
		return problem.Invalid(problem.Fault{Parameter: keyFormatParameter, Detail: "can't be visible: the keys of this bucket are not retrievable"})
	}
	return nil
}

func (s *server) createConsumer(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	q := c.query()
	withKey, _ := q.Bool("with-api-key")
	f, _, err := c.form(false)
	if err != nil {
		return faults(q.Err(), err)
	}
	consumer := domain.Consumer{Account: account, Bucket: c.Param("bucketName"), Name: readName(f, 1, maxConsumerName)}
	form := s.readNewConsumer(f)
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	if auth.Exceeds(form.scopes, c.principal) {
		return errEscalation
	}
	if withKey {
		form.keys = append(form.keys, s.Keys.NewKey())
	}
	apply(&consumer, form.changes)
	made, err := s.Store.CreateConsumer(c.ctx(), consumer, form.managers, form.keys)
	if s.changed(c, err) != nil {
		return taken(err, "There is a consumer of this name in the bucket already, or one of the keys is in use.")
	}
	shown := parts{keys: len(form.keys) > 0, managers: len(form.managers) > 0, format: keyVisible}
	return c.created(path(account, "key-buckets", consumer.Bucket, "consumers", made.Name), shown.view(made))
}

func (s *server) getConsumer(c *call) error {
	q := c.query()
	with := readParts(q)
	ref, err := s.readRef(c, q, with.ofStore().Secrets)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.retrievable(c, ref.Account, ref.Bucket, with.format); err != nil {
		return err
	}
	v, err := s.Store.GetConsumer(c.ctx(), ref, with.ofStore())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, with.view(v))
}

func (s *server) updateConsumer(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	f, _, err := c.form(false)
	if err != nil {
		return faults(q.Err(), err)
	}
	form := readConsumer(f)
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	consumer, err := s.Store.UpdateConsumer(c.ctx(), ref, func(consumer *domain.Consumer) error {
		// What it may do now was guarded before; so is what it is to do.
		apply(consumer, form.changes)
		return c.guard(*consumer)
	})
	if s.changed(c, err) != nil {
		return err
	}
	return c.answer(http.StatusOK, viewConsumer(consumer))
}

func (s *server) deleteConsumer(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.changed(c, s.Store.DeleteConsumer(c.ctx(), ref)); err != nil {
		return err
	}
	return c.noContent()
}
