package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// MaxRecordBytes is about how large one batch of records may become: a dispatcher
// closes a batch that has reached it. The server refuses messages above 1 MiB, and one
// more outcome or event adds at most 270 KiB.
const MaxRecordBytes = 512 << 10

// PublishRecords stores a batch of outcomes for the record stage and calls done exactly once.
func (b *Bus) PublishRecords(batch *domain.RecordBatch, done func(error)) {
	b.publish(&nats.Msg{Subject: subjectRecords, Data: EncodeRecords(batch)}, func(_ *jetstream.PubAck, err error) { done(err) })
}

// EncodeRecords writes the body of a message of RECORDS.
func EncodeRecords(batch *domain.RecordBatch) []byte {
	// Some 300 bytes an outcome with an attempt and a short answer.
	return appendRecords(make([]byte, 0, 64+384*len(batch.Outcomes)+64*len(batch.Settled)), batch)
}

// ParseRecords reads a message of RECORDS. What it returns shares body's bytes. ErrVersion:
// another build wrote it.
func ParseRecords(body []byte) (domain.RecordBatch, error) {
	batch, err := parseRecords(body)
	if err != nil {
		return batch, fmt.Errorf("decode records: %w", err)
	}
	return batch, nil
}
