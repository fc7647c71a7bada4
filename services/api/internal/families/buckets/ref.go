package buckets

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
)

// Paths of buckets, and of the resources in them.
const (
	Path         = listPath + "/{bucketName}"
	ConsumerPath = Path + "/consumers/{consumerName}"

	listPath = web.AccountPath + "/key-buckets"
)

// Ref returns the bucket that the path names, with the tags that the query requires.
func Ref(c *web.Call) access.BucketRef {
	return access.BucketRef{Account: c.Account(), Bucket: c.Param("bucketName"), Tags: c.Tags(), Guard: guard(c)}
}

// ConsumerRef is Ref for a consumer that is changed, or shown with its keys.
func ConsumerRef(c *web.Call) access.ConsumerRef {
	return access.ConsumerRef{
		Account: c.Account(), Bucket: c.Param("bucketName"), Consumer: c.Param("consumerName"),
		Tags: c.Tags(), Guard: guard(c),
	}
}

// ReadRef is ConsumerRef for a consumer that is only read. With full, its keys are shown in full,
// and the caller must have its scopes, too.
func ReadRef(c *web.Call, full bool) access.ConsumerRef {
	ref := ConsumerRef(c)
	if !full {
		ref.Guard = nil
	}
	return ref
}

// guard refuses a change of a consumer that may do more than the caller.
func guard(c *web.Call) func(domain.Consumer) error {
	return func(consumer domain.Consumer) error { return c.MayGive(consumer.Scopes) }
}
