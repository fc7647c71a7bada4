package bus

import (
	"fmt"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
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
	body, err := EncodeRecords(batch)
	if err != nil {
		done(err)
		return
	}
	b.publish(&nats.Msg{Subject: subjectRecords, Data: body}, func(_ *jetstream.PubAck, err error) { done(err) })
}

// EncodeRecords writes the body of a message of RECORDS.
func EncodeRecords(batch *domain.RecordBatch) ([]byte, error) {
	body, err := json.Marshal(batch, jsonv1.FormatDurationAsNano(true))
	if err != nil {
		return nil, fmt.Errorf("encode records: %w", err)
	}
	return body, nil
}

// ParseRecords reads a message of RECORDS.
func ParseRecords(body []byte) (domain.RecordBatch, error) {
	var batch domain.RecordBatch
	if err := json.Unmarshal(body, &batch, jsonv1.FormatDurationAsNano(true)); err != nil {
		return batch, fmt.Errorf("decode records: %w", err)
	}
	return batch, nil
}
