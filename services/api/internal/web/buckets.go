package web

import (
	"net/http"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

// Bounds of a bucket's name.
const (
	minBucketName = 5
	maxBucketName = 128
)

type bucketView struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	CreatedOn     *string           `json:"createdOn"`
	UpdatedOn     *string           `json:"updatedOn"`
	IsRetrievable bool              `json:"isRetrievable"`
	Description   string            `json:"description"`
	Tags          map[string]string `json:"tags"`
}

func viewBucket(b domain.Bucket) bucketView {
	return bucketView{
		ID: b.ID, Name: b.Name, CreatedOn: stamp(b.CreatedOn), UpdatedOn: stamp(b.UpdatedOn),
		IsRetrievable: b.Retrievable, Description: b.Description, Tags: b.Tags,
	}
}

func (s *server) listBuckets(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	q := c.query()
	page, tags := readPage(q), q.Prefixed(tagPrefix)
	if err := q.Err(); err != nil {
		return err
	}
	buckets, total, err := s.Store.ListBuckets(c.ctx(), account, tags, page)
	if err != nil {
		return err
	}
	return answerList(c, page, total, buckets, viewBucket)
}

func (s *server) createBucket(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	queryErr := c.query().Err()
	f, _, err := c.form(false)
	if err != nil {
		return faults(queryErr, err)
	}
	bucket := domain.Bucket{Account: account, Name: readName(f, minBucketName, maxBucketName), Retrievable: true}
	if retrievable, ok := f.Bool("isRetrievable"); ok {
		bucket.Retrievable = retrievable
	}
	apply(&bucket, bucketChanges(f))
	if err := faults(queryErr, f.Err()); err != nil {
		return err
	}
	made, err := s.Store.CreateBucket(c.ctx(), bucket)
	if err != nil {
		return taken(err, "There is a bucket of this name already.")
	}
	return c.created(path(account, "key-buckets", made.Name), viewBucket(made))
}

// bucketChanges reads the fields that creation and PATCH have in common.
func bucketChanges(f *input.Form) []func(*domain.Bucket) {
	var changes []func(*domain.Bucket)
	if text, ok := f.Text("description", 0, maxDescription); ok {
		changes = append(changes, func(b *domain.Bucket) { b.Description = text })
	}
	if tags, ok := readTags(f); ok {
		changes = append(changes, func(b *domain.Bucket) { b.Tags = tags })
	}
	return changes
}

// apply makes the changes to v.
func apply[T any](v *T, changes []func(*T)) {
	for _, change := range changes {
		change(v)
	}
}

func (s *server) getBucket(c *call) error {
	q := c.query()
	ref, err := s.bucketRef(c, q)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	bucket, err := s.Store.GetBucket(c.ctx(), ref)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, viewBucket(bucket))
}

func (s *server) updateBucket(c *call) error {
	q := c.query()
	ref, err := s.bucketRef(c, q)
	if err != nil {
		return err
	}
	f, _, err := c.form(false)
	if err != nil {
		return faults(q.Err(), err)
	}
	changes := bucketChanges(f)
	if err := faults(q.Err(), f.Err()); err != nil {
		return err
	}
	bucket, err := s.Store.UpdateBucket(c.ctx(), ref, func(b *domain.Bucket) error {
		apply(b, changes)
		return nil
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, viewBucket(bucket))
}

func (s *server) deleteBucket(c *call) error {
	q := c.query()
	ref, err := s.bucketRef(c, q)
	if err != nil {
		return err
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := s.changed(c, s.Store.DeleteBucket(c.ctx(), ref)); err != nil {
		return err
	}
	return c.noContent()
}
