package store

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// byteaArrays writes arrays of bytes and grows the buffer only once. The driver's own codec grows
// it bit by bit: that took four times the size of the arrays, and a quarter of what the API
// allocated for an event.
type byteaArrays struct{ pgtype.Codec }

// PlanEncode implements pgtype.Codec.
func (c byteaArrays) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([][]byte); ok && format == pgtype.BinaryFormatCode {
		return byteaArrayPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type byteaArrayPlan struct{}

// Encode implements pgtype.EncodePlan: an array of one dimension, in Postgres' binary form.
func (byteaArrayPlan) Encode(value any, to []byte) ([]byte, error) {
	list, _ := value.([][]byte) // PlanEncode has checked the type
	if list == nil {
		return nil, nil // NULL
	}
	size, nulls := 5*4, uint32(0)
	for _, element := range list {
		size += 4 + len(element)
		if element == nil {
			nulls = 1
		}
	}
	to = slices.Grow(to, size)
	to = binary.BigEndian.AppendUint32(to, 1) // dimension
	to = binary.BigEndian.AppendUint32(to, nulls)
	to = binary.BigEndian.AppendUint32(to, pgtype.ByteaOID)
	to = binary.BigEndian.AppendUint32(to, uint32(len(list))) // a statement has far fewer elements
	to = binary.BigEndian.AppendUint32(to, 1)                 // the first index is 1
	for _, element := range list {
		if element == nil {
			to = binary.BigEndian.AppendUint32(to, ^uint32(0))
			continue
		}
		to = binary.BigEndian.AppendUint32(to, uint32(len(element)))
		to = append(to, element...)
	}
	return to, nil
}
