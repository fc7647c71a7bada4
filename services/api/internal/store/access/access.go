// Package access has the tables for access: projects, buckets, consumers with their keys and
// managers. Only the api reads and writes them.
package access

import (
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/counts"
	"waybill.dev/shared/store/keyholders"
)

// Access reads and writes the tables.
type Access struct {
	*keyholders.Holders

	db    *store.Store
	audit *auditlog.Log

	projects, buckets, consumers, keys, managers counts.Kind
}

// New returns the tables of an open database.
func New(db *store.Store) *Access {
	a := &Access{Holders: keyholders.New(db), db: db, audit: auditlog.New(db)}
	a.Limit(domain.DefaultLimits())
	return a
}

// Prefixes and lengths of the ids that are made here.
const (
	prefixProject  = "prj_"
	prefixBucket   = "bckt_"
	prefixConsumer = "csmr_"
	prefixKey      = "key_"
	prefixManager  = "eusr_"

	bucketIDLength = 32
	idLength       = 24
)

// maxParts bounds the keys, and the managers, that are read with one consumer; separate lists have
// all of them.
const maxParts = 1000
