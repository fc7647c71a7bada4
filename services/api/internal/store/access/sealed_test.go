package access_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// TestSealedKeys looks beneath the store: of the keys of a bucket that is not retrievable
// there is nothing but hash and checksum, the others lie sealed, and a sealed key that is
// moved to another row does not open.
func TestSealedKeys(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		keys, err := seal.Parse(seal.Generate())
		if err != nil {
			t.Fatal(err)
		}
		s, db := access.New(d.Open(t, store.Options{Keys: keys})), d.Beneath(t)
		shut, shutKeys := bucketOfKeys(t, s, "shut-bucket", false)
		open, openKeys := bucketOfKeys(t, s, "open-bucket", true)
		var sealed int
		if err := db.QueryRowContext(t.Context(), "SELECT count(sealed) FROM api_keys").Scan(&sealed); err != nil || sealed != len(openKeys) {
			t.Errorf("%d sealed keys, %v", sealed, err)
		}
		dump := dumpKeys(t, db)
		for _, k := range append(shutKeys, openKeys...) {
			text := k.Key.Reveal()
			for _, form := range []string{text, text[4:36], hex.EncodeToString([]byte(text)), text[4:20]} {
				if strings.Contains(dump, form) {
					t.Error("a key lies in clear")
				}
			}
		}
		for _, change := range []string{
			"UPDATE api_keys SET sealed = (SELECT sealed FROM api_keys WHERE id = $1) WHERE id = $2",
			"UPDATE api_keys SET consumer_id = (SELECT id FROM key_consumers WHERE name = 'open-bucket-other' AND $1 <> '') WHERE id = $2",
		} {
			if _, err := db.ExecContext(t.Context(), change, openKeys[0].ID, openKeys[1].ID); err != nil {
				t.Fatal(err)
			}
			for _, ref := range []access.ConsumerRef{open, {Account: open.Account, Bucket: open.Bucket, Consumer: "open-bucket-other"}} {
				if k, err := s.GetKey(t.Context(), ref, openKeys[1].ID, true); err == nil {
					t.Errorf("%s: it opens as %q", change, k.Key.Reveal())
				}
			}
		}
		bare := access.New(d.Open(t, store.Options{}))
		if _, err := bare.GetKey(t.Context(), open, openKeys[0].ID, true); err == nil {
			t.Error("opened without a key")
		}
		if _, err := bare.GetKey(t.Context(), shut, shutKeys[0].ID, true); err != nil {
			t.Errorf("there is nothing to open: %v", err)
		}
	})
}

// TestRehashedKey replaces the encryption key: a key that was presented meanwhile can be
// shown when the old one is gone.
func TestRehashedKey(t *testing.T) {
	t.Parallel()
	d := storetest.SQLite().Fresh(t)
	before, after := seal.Generate(), seal.Generate()
	open := func(text string) *access.Access {
		ring, err := seal.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return access.New(d.Open(t, store.Options{Keys: ring}))
	}
	ref, keys := bucketOfKeys(t, open(before), "bucket", true)
	used, unused := keys[0], keys[1]
	hash := sha256.Sum256([]byte("another"))
	if err := open(after+","+before).RehashKey(t.Context(), used.ID, hash[:]); err != nil {
		t.Fatal(err)
	}
	s := open(after)
	if got, err := s.GetKey(t.Context(), ref, used.ID, true); err != nil || got.Key != used.Key {
		t.Errorf("after its use: %v", err)
	}
	if _, err := s.GetKey(t.Context(), ref, unused.ID, true); err == nil {
		t.Error("opened under a key that is gone")
	}
	// What can't be shown can still be used.
	if err := s.RehashKey(t.Context(), unused.ID, unused.Hash[:16]); err != nil {
		t.Error(err)
	}
}

// bucketOfKeys makes a bucket with two keys, made together, rolled in, and put in place.
func bucketOfKeys(t *testing.T, s *access.Access, name string, retrievable bool) (access.ConsumerRef, []domain.APIKey) {
	t.Helper()
	if _, err := s.CreateBucket(t.Context(), domain.Bucket{Account: domain.DefaultAccount, Name: name, Retrievable: retrievable}); err != nil {
		t.Fatal(err)
	}
	fresh := func(i int) domain.APIKey {
		random := sha256.Sum256(fmt.Append(nil, name, i))
		text := "wbk_" + hex.EncodeToString(random[:16]) + "_01234567"
		hash := sha256.Sum256([]byte(text))
		return domain.APIKey{Key: domain.Secret(text), Suffix: "01234567", Hash: hash[:]}
	}
	c := domain.Consumer{Account: domain.DefaultAccount, Bucket: name, Name: "c"}
	view, err := s.CreateConsumer(t.Context(), c, nil, []domain.APIKey{fresh(1), fresh(2)})
	if err != nil {
		t.Fatal(err)
	}
	c.Name = name + "-other"
	if _, err := s.CreateConsumer(t.Context(), c, nil, nil); err != nil {
		t.Fatal(err)
	}
	ref := access.ConsumerRef{Account: c.Account, Bucket: name, Consumer: "c"}
	rolled, err := s.RollKeys(t.Context(), ref, fresh(3), view.CreatedOn)
	if err != nil {
		t.Fatal(err)
	}
	put := fresh(4)
	if _, err := s.UpdateKey(t.Context(), ref, view.Keys[0].ID, func(k *domain.APIKey) error {
		k.Key, k.Hash = put.Key, put.Hash
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	put.ID = view.Keys[0].ID
	return ref, []domain.APIKey{put, view.Keys[1], rolled}
}

// dumpKeys returns all that the database has of keys, the bytes in clear and in hex.
func dumpKeys(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id, consumer_id, description, suffix, hash, sealed FROM api_keys")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var dump bytes.Buffer
	for rows.Next() {
		var texts [4]string
		var hash, sealed []byte
		if err := rows.Scan(&texts[0], &texts[1], &texts[2], &texts[3], &hash, &sealed); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&dump, "%s %s %s %x %x\n", texts, hash, sealed, hash, sealed)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return dump.String()
}
