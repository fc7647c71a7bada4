package storetest

import (
	"fmt"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// consumer makes a consumer with so many keys.
func (b *bench) consumer(t *testing.T, bucket domain.Bucket, keys int, change ...func(*domain.Consumer)) store.ConsumerView {
	t.Helper()
	c := domain.Consumer{Account: bucket.Account, Bucket: bucket.Name, Name: fmt.Sprintf("consumer-%d", b.next())}
	for _, f := range change {
		f(&c)
	}
	fresh := make([]domain.APIKey, keys)
	for i := range fresh {
		fresh[i] = b.apiKey()
	}
	view, err := b.CreateConsumer(t.Context(), c, nil, fresh)
	if err != nil {
		t.Fatalf("create consumer: %v", err)
	}
	return view
}

func consumerRef(c store.ConsumerView) store.ConsumerRef {
	return store.ConsumerRef{Account: c.Account, Bucket: c.Bucket, Consumer: c.Name}
}
