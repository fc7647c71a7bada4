package load

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

const (
	idPrefix  = "bench-"
	idDigits  = 10
	timeStart = `"sentAt":"`
	timeSize  = 19 // of a time in nanoseconds since 1970, until the year 2286
)

// template is an event with holes for its number and the time at which it was sent.
type template struct {
	text    []byte
	numbers []int // where the number stands
	time    int
}

// newTemplate returns a shipment of a type. It is filled up to size bytes; the least is
// what the members need.
func newTemplate(kind domain.EventType, size int) template {
	number, sent := strings.Repeat("0", idDigits), strings.Repeat("0", timeSize)
	head := fmt.Sprintf(`{"id":"%s%s","type":"%s","data":{"shipmentId":"shp_%s","metadata":{"sentAt":"%s"}`, idPrefix, number, kind, number, sent)
	for _, member := range members() {
		if len(head)+len(member)+1+len(`,"note":""}}`) <= size {
			head += "," + member
		}
	}
	if rest := size - len(head) - len(`,"note":""}}`); rest > 0 {
		head += `,"note":"` + strings.Repeat("waybill ", rest/8+1)[:rest] + `"`
	}
	t := template{text: []byte(head + "}}")}
	for _, before := range []string{idPrefix, "shp_"} {
		t.numbers = append(t.numbers, bytes.Index(t.text, []byte(before))+len(before))
	}
	t.time = bytes.Index(t.text, []byte(timeStart)) + len(timeStart)
	return t
}

// members are what a carrier would send: checking them is a part of accepting an event.
func members() []string {
	return []string{
		`"status":"in_transit"`,
		`"trackingNumber":"JD014600003828392837"`,
		`"sequence":2`,
		`"carrier":{"code":"dhl_express","name":"DHL Express","serviceLevel":"express_worldwide"}`,
		`"occurredAt":"2026-11-17T22:41:03+01:00"`,
		`"location":{"city":"Köln","state":"Nordrhein-Westfalen","postalCode":"51147","countryCode":"DE","latitude":50.8659,"longitude":7.142744}`,
		`"estimatedDeliveryAt":"2026-11-19T16:10:00Z"`,
		`"carrierStatus":{"code":"PL","description":"Processed at COLOGNE - GERMANY"}`,
		`"previousStatus":"created"`,
		`"reference":"PO-2026-118823"`,
		`"parcels":[{"weight":2.4,"weightUnit":"kg","length":30,"width":20,"height":12,"dimensionUnit":"cm","packaging":"box"}]`,
	}
}

// append adds event n, sent at a time, to dst.
func (t *template) append(dst []byte, n int64, sent time.Time) []byte {
	start := len(dst)
	dst = append(dst, t.text...)
	text := dst[start:]
	for _, at := range t.numbers {
		digits(text[at:at+idDigits], n)
	}
	digits(text[t.time:t.time+timeSize], sent.UnixNano())
	return dst
}

// digits fills a hole with a number and leading zeros.
func digits(hole []byte, n int64) {
	for i := len(hole) - 1; i >= 0; i-- {
		hole[i] = byte('0' + n%10)
		n /= 10
	}
}

func eventID(n int64) string { return fmt.Sprintf("%s%0*d", idPrefix, idDigits, n) }

// numberOf reads the number out of an event's id.
func numberOf(id []byte) (int64, bool) {
	text, ok := bytes.CutPrefix(id, []byte(idPrefix))
	if !ok {
		return 0, false
	}
	return parseNumber(text)
}

// sentAt reads the time out of a callback's body.
func sentAt(body []byte) (time.Time, bool) {
	i := bytes.Index(body, []byte(timeStart))
	if i < 0 || len(body) < i+len(timeStart)+timeSize {
		return time.Time{}, false
	}
	i += len(timeStart)
	ns, ok := parseNumber(body[i : i+timeSize])
	return time.Unix(0, ns), ok
}

func parseNumber(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}
