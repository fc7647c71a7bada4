package store_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func TestArraysOfBytesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	pool := storetest.Open(t, store.Options{URL: storetest.Empty(t).URL}).Postgres()
	for name, list := range map[string][][]byte{
		"null": nil, "empty": {}, "one": {[]byte(`{"a":1}`)}, "with null": {{0}, nil, {}, []byte("x")},
		"large": {bytes.Repeat([]byte{7}, 1<<20), bytes.Repeat([]byte{8}, 1<<20)},
	} {
		var before, after int
		var got [][]byte
		if err := pool.QueryRow(t.Context(), "SELECT $1::integer, $2::bytea[], $3::integer", 1, list, 2).Scan(&before, &got, &after); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(list, got); diff != "" || before != 1 || after != 2 {
			t.Errorf("%s: between %d and %d (-want +got):\n%s", name, before, after, diff)
		}
	}
}
