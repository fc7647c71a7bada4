package keys

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// Format is how much of a key is shown.
type Format string

// The formats.
const (
	Masked  Format = "masked"
	Visible Format = "visible"
	Hidden  Format = "none"

	formatParameter = "key-format"
	maskedPrefix    = "****"
)

// ReadFormat returns the format that the query asks for.
func ReadFormat(c *web.Call) Format {
	if format := input.OneOf(c.Query(), formatParameter, []Format{Hidden, Visible, Masked}); format != "" {
		return format
	}
	return Masked
}

// Key is a key as callers see it.
type Key struct {
	ID          string  `json:"id"`
	CreatedOn   *string `json:"createdOn"`
	UpdatedOn   *string `json:"updatedOn"`
	Description string  `json:"description"`
	ExpiresOn   *string `json:"expiresOn,omitzero"`
	Key         string  `json:"key,omitzero"`
}

// View returns a key as callers see it.
func (f Format) View(k domain.APIKey) Key {
	v := Key{
		ID: k.ID, CreatedOn: web.Stamp(k.CreatedOn), UpdatedOn: web.Stamp(k.UpdatedOn),
		Description: k.Description, ExpiresOn: web.Stamp(k.ExpiresOn),
	}
	switch f {
	case Visible:
		v.Key = k.Key.Reveal()
	case Masked:
		v.Key = maskedPrefix + k.Suffix
	case Hidden:
	}
	return v
}

// RequireRetrievable refuses to show keys in full if their bucket does not store them so that they
// can be shown.
func RequireRetrievable(c *web.Call, buckets Buckets, account, bucket string, format Format) error {
	if format != Visible {
		return nil
	}
	b, err := buckets.GetBucket(c.Context(), access.BucketRef{Account: account, Bucket: bucket})
	if err != nil {
		return err
	}
	if !b.Retrievable {
		return problem.Invalid(problem.Fault{Parameter: formatParameter, Detail: "can't be visible: the keys of this bucket are not retrievable"})
	}
	return nil
}
