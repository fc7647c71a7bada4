package httpapi

import (
	"net/http"

	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// keyFormat is how much of a key is shown.
type keyFormat string

const (
	keyMasked  keyFormat = "masked"
	keyVisible keyFormat = "visible"
	keyHidden  keyFormat = "none"

	keyFormatParameter = "key-format"
	maskedPrefix       = "****"
	maxKeyLength       = 256
)

func readKeyFormat(q *input.Query) keyFormat {
	if format := input.OneOf(q, keyFormatParameter, []keyFormat{keyHidden, keyVisible, keyMasked}); format != "" {
		return format
	}
	return keyMasked
}

type keyView struct {
	ID          string  `json:"id"`
	CreatedOn   *string `json:"createdOn"`
	UpdatedOn   *string `json:"updatedOn"`
	Description string  `json:"description"`
	ExpiresOn   *string `json:"expiresOn,omitzero"`
	Key         string  `json:"key,omitzero"`
}

func viewKey(k domain.APIKey, format keyFormat) keyView {
	v := keyView{
		ID: k.ID, CreatedOn: stamp(k.CreatedOn), UpdatedOn: stamp(k.UpdatedOn),
		Description: k.Description, ExpiresOn: stamp(k.ExpiresOn),
	}
	switch format {
	case keyVisible:
		v.Key = k.Key.Reveal()
	case keyMasked:
		v.Key = maskedPrefix + k.Suffix
	case keyHidden:
	}
	return v
}

// readKey reads the fields of a key. given is the key itself, when the caller brings one.
func (s *server) readKey(f *input.Form) (changes []func(*domain.APIKey), given bool) {
	if text, ok := f.Text("description", 0, maxDescription); ok {
		changes = append(changes, func(k *domain.APIKey) { k.Description = text })
	}
	if at, ok := f.Time("expiresOn"); ok {
		changes = append(changes, func(k *domain.APIKey) { k.ExpiresOn = at })
	}
	if text, ok := f.Text("key", 1, maxKeyLength); ok {
		imported, err := s.Keys.Import(text)
		if err != nil {
			f.Fault("must be wbk_, 32 characters of A-Z a-z 0-9, _ and the checksum of the 32", "key")
			return changes, true
		}
		given = true
		changes = append(changes, func(k *domain.APIKey) { k.Key, k.Suffix, k.Hash = imported.Key, imported.Suffix, imported.Hash })
	}
	return changes, given
}

// readNewKey reads a key that is to be made: a fresh one unless the caller brings one.
func (s *server) readNewKey(f *input.Form) domain.APIKey {
	changes, given := s.readKey(f)
	var key domain.APIKey
	if !given {
		key = s.Keys.NewKey()
	}
	apply(&key, changes)
	return key
}

const keyTaken = "A key is in use already."

func (s *server) listKeys(c *call) error {
	q := c.query()
	page, format := readPage(q), readKeyFormat(q)
	ref, err := s.readRef(c, q, format == keyVisible)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.retrievable(c, ref.Account, ref.Bucket, format); err != nil {
		return err
	}
	keys, total, err := s.Store.ListKeys(c.ctx(), ref, format == keyVisible, page)
	if err != nil {
		return err
	}
	return answerList(c, page, total, keys, func(k domain.APIKey) keyView { return viewKey(k, format) })
}

func (s *server) createKey(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	f, _, err := c.form(true)
	if err != nil {
		return faults(q.Err(), err)
	}
	key := s.readNewKey(f)
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	made, err := s.Store.CreateKeys(c.ctx(), ref, []domain.APIKey{key})
	if s.changed(c, err) != nil {
		return taken(err, keyTaken)
	}
	return c.created(keysPath(ref)+"/"+made[0].ID, viewKey(made[0], keyVisible))
}

func (s *server) createKeys(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	body, err := c.body(maxResourceBody)
	if err != nil {
		return faults(q.Err(), err)
	}
	whole, forms, err := input.ParseForms(body, 1, maxBulk)
	if err != nil {
		return faults(q.Err(), err)
	}
	keys := make([]domain.APIKey, 0, len(forms))
	for _, f := range forms {
		keys = append(keys, s.readNewKey(f))
	}
	if err := faults(q.Err(), whole.Err()); err != nil {
		return err
	}
	made, err := s.Store.CreateKeys(c.ctx(), ref, keys)
	if s.changed(c, err) != nil {
		return taken(err, keyTaken)
	}
	page := store.Page{Limit: maxBulk}
	answer, err := list(page, len(made), made, func(k domain.APIKey) keyView { return viewKey(k, keyVisible) })
	if err != nil {
		return err
	}
	return c.created(keysPath(ref), answer)
}

func keysPath(ref access.ConsumerRef) string {
	return path(ref.Account, "key-buckets", ref.Bucket, "consumers", ref.Consumer, "keys")
}

func (s *server) getKey(c *call) error {
	q := c.query()
	format := readKeyFormat(q)
	ref, err := s.readRef(c, q, format == keyVisible)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.retrievable(c, ref.Account, ref.Bucket, format); err != nil {
		return err
	}
	key, err := s.Store.GetKey(c.ctx(), ref, c.Param("keyId"), format == keyVisible)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, viewKey(key, format))
}

func (s *server) updateKey(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	f, _, err := c.form(false)
	if err != nil {
		return faults(q.Err(), err)
	}
	changes, _ := s.readKey(f)
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	key, err := s.Store.UpdateKey(c.ctx(), ref, c.Param("keyId"), func(k *domain.APIKey) error {
		apply(k, changes)
		return nil
	})
	if s.changed(c, err) != nil {
		return taken(err, keyTaken)
	}
	return c.answer(http.StatusOK, viewKey(key, keyMasked))
}

func (s *server) deleteKey(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.changed(c, s.Store.DeleteKey(c.ctx(), ref, c.Param("keyId"))); err != nil {
		return err
	}
	return c.noContent()
}

// rollKeys makes a new key and lets the others end. Where the new one can't be looked up
// later it is shown, this once.
func (s *server) rollKeys(c *call) error {
	q := c.query()
	ref, err := s.consumerRef(c, q)
	if err != nil {
		return err
	}
	f, _, err := c.form(true)
	if err != nil {
		return faults(q.Err(), err)
	}
	expiresOn, _ := f.Time("expiresOn") // left out: now
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	bucket, err := s.Store.GetBucket(c.ctx(), access.BucketRef{Account: ref.Account, Bucket: ref.Bucket})
	if err != nil {
		return err
	}
	key, err := s.Store.RollKeys(c.ctx(), ref, s.Keys.NewKey(), expiresOn)
	if s.changed(c, err) != nil {
		return err
	}
	if bucket.Retrievable {
		return c.noContent()
	}
	return c.answer(http.StatusOK, viewKey(key, keyVisible))
}
