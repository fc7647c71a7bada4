package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/jsonscan/attack"
)

func samples(tb testing.TB) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"created", "in_transit", "delivered", "exception"} {
		body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			tb.Fatal(err)
		}
		out[name] = bytes.TrimSpace(body)
	}
	return out
}

func TestSamplesGoThroughByteForByte(t *testing.T) {
	t.Parallel()
	for name, body := range samples(t) {
		event, faults := envelope.Decode(body)
		if err := faults.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := event.Payload(); !bytes.Equal(got, body) {
			t.Errorf("%s: payload\n%s\nwant\n%s", name, got, body)
		}
	}
	event, _ := envelope.Decode(samples(t)["exception"])
	for _, exact := range []string{"0.1000", "9007199254740993"} {
		if !bytes.Contains(event.Payload(), []byte(exact)) {
			t.Errorf("payload has lost %s", exact)
		}
	}
}

// generator writes random events whose data has every shape that JSON allows.
type generator struct {
	*rand.Rand
	out []byte
}

func (g *generator) space() {
	for g.IntN(4) == 0 {
		g.out = append(g.out, " \t\n\r"[g.IntN(4)])
	}
}

func (g *generator) pick(options ...string) { g.out = append(g.out, options[g.IntN(len(options))]...) }

func (g *generator) value(depth int) {
	g.space()
	switch n := g.IntN(9); {
	case n < 2 && depth < 20:
		g.out = append(g.out, '{')
		for i := range g.IntN(4) {
			if i > 0 {
				g.out = append(g.out, ',')
			}
			g.space()
			g.out = fmt.Appendf(g.out, `"k%d`, i)
			g.pick(``, `é`, `\u00e9`, `~/`, `\"`, `東`)
			g.out = append(g.out, '"')
			g.space()
			g.out = append(g.out, ':')
			g.value(depth + 1)
		}
		g.space()
		g.out = append(g.out, '}')
	case n < 4 && depth < 20:
		g.out = append(g.out, '[')
		for i := range g.IntN(4) {
			if i > 0 {
				g.out = append(g.out, ',')
			}
			g.value(depth + 1)
		}
		g.space()
		g.out = append(g.out, ']')
	case n < 6:
		g.pick(`""`, `"plain"`, `"Köln – 東 🚚"`, `"\ud83d\ude9a"`, `"\u00e9\n\/\\"`, `"\\u0000"`, `"<&>\u2028"`, `"0.10"`)
	case n < 8:
		g.pick(`0`, `-0`, `0.1000`, `1e400`, `-1.50E-7`, `9007199254740993`, `123456789012345678901234567890`, `1E+2`)
	default:
		g.pick(`true`, `false`, `null`, `{}`, `[]`)
	}
	g.space()
}

func TestGeneratedEventsGoThroughByteForByte(t *testing.T) {
	t.Parallel()
	g := &generator{Rand: rand.New(rand.NewPCG(11, 7))}
	for i := range 10_000 {
		g.out = append(g.out[:0], `{"shipmentId":"shp_1"`...)
		for j := range g.IntN(6) {
			g.out = fmt.Appendf(g.out, `,"x%d":`, j)
			g.value(2)
		}
		data := bytes.Clone(append(g.out, '}'))
		id := fmt.Sprintf("evt_%d", i)
		kind := domain.EventTypes()[g.IntN(4)]
		body := fmt.Appendf(nil, ` {"data" : %s, "type":"%s","id":"%s" ,"timestamp":"2026-11-16T13:04:11+05:30"}`+"\n", data, kind, id)
		event, faults := envelope.Decode(body)
		if err := faults.Err(); err != nil {
			t.Fatalf("event %d: %v\n%s", i, err, body)
		}
		if !bytes.Equal(event.Data, data) {
			t.Fatalf("data\n%s\nwant\n%s", event.Data, data)
		}
		want := fmt.Sprintf(`{"id":"%s","type":"%s","timestamp":"2026-11-16T13:04:11+05:30","data":%s}`, id, kind, data)
		if got := string(event.Payload()); got != want {
			t.Fatalf("payload\n%s\nwant\n%s", got, want)
		}
	}
}

// ok is a valid event around the given members of data.
func ok(members string) string {
	return `{"type":"shipment.created","data":{"shipmentId":"s"` + members + `}}`
}

func of(kind, members string) string {
	return `{"type":"shipment.` + kind + `","data":{"shipmentId":"s"` + members + `}}`
}

func TestFaults(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	long := strings.Repeat("n", 200)
	const (
		kinds = "must be one of shipment.created, shipment.in_transit, shipment.delivered, shipment.exception"
		idSet = "must be 1 to 64 characters of A-Z a-z 0-9 _ -"
	)
	rows := []struct {
		name, body string
		want       []string // pointer, space, detail
	}{
		{"empty", ``, []string{" is empty, want JSON"}},
		{"spaces", `  `, []string{" is not valid JSON: it ends too early"}},
		{"not JSON", `{"type":hunter2}`, []string{" is not valid JSON at byte 8"}},
		{"cut", `{"type":"ship`, []string{" is not valid JSON: it ends too early"}},
		{"trailing text", ok("") + `hunter2`, []string{" is not valid JSON: something follows the value"}},
		{"second value", ok("") + ok(""), []string{" is not valid JSON: something follows the value"}},
		{"BOM", "\ufeff" + ok(""), []string{" is not valid JSON at byte 0"}},
		{"comment", `{/**/}`, []string{" is not valid JSON at byte 1"}},
		{"bad UTF-8", ok(",\"x\":\"\xff\""), []string{" is not valid JSON at byte 57"}},
		{"lone surrogate", ok(`,"x":"\ud800"`), []string{" is not valid JSON at byte 57"}},
		{"control character", ok(",\"x\":\"\x01\""), []string{" is not valid JSON at byte 57"}},
		{"NaN", ok(`,"x":NaN`), []string{" is not valid JSON at byte 56"}},
		{"leading zero", ok(`,"x":01`), []string{" is not valid JSON at byte 57"}},
		{"number", `5`, []string{" must be an object"}},
		{"null", `null`, []string{" must be an object"}},
		{"no members", `{}`, []string{"/type is required", "/data is required"}},
		{"unknown member", `{"hunter2":1,"type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/hunter2 is not a known member"}},
		{"escaped pointer", `{"a/b~c":"v","type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/a~1b~0c is not a known member"}},
		{"long name", `{"` + long + `":1,"type":"shipment.created","data":{"shipmentId":"s"}}`, []string{" has a member with a long name, which is not a known member"}},
		{"other case", `{"Type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/Type is not a known member", "/type is required"}},
		{"id null", `{"id":null,"type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/id must be a string"}},
		{"id empty", `{"id":"","type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/id " + idSet}},
		{"id with a dot", `{"id":"a.b","type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/id " + idSet}},
		{"id of 65", `{"id":"` + strings.Repeat("a", 65) + `","type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/id " + idSet}},
		{"id with line break", `{"id":"a\n","type":"shipment.created","data":{"shipmentId":"s"}}`, []string{"/id " + idSet}},
		{"other type", `{"type":"shipment.lost","data":{"shipmentId":"s"}}`, []string{"/type " + kinds}},
		{"type a number", `{"type":5,"data":{"shipmentId":"s"}}`, []string{"/type must be a string"}},
		{"data a string", `{"type":"shipment.created","data":"hunter2"}`, []string{"/data must be an object"}},
		{"data null", `{"type":"shipment.created","data":null}`, []string{"/data must be an object"}},
		{"data empty", `{"type":"shipment.created","data":{}}`, []string{"/data/shipmentId is required"}},
		{"shipmentId empty", `{"type":"shipment.created","data":{"shipmentId":""}}`, []string{"/data/shipmentId must have 1 to 128 characters"}},
		{"shipmentId of 129", `{"type":"shipment.created","data":{"shipmentId":"` + strings.Repeat("é", 129) + `"}}`, []string{"/data/shipmentId must have 1 to 128 characters"}},
		{"shipmentId a number", `{"type":"shipment.created","data":{"shipmentId":5}}`, []string{"/data/shipmentId must be a string"}},
		{"shipmentId an object", `{"type":"shipment.created","data":{"shipmentId":{}}}`, []string{"/data/shipmentId must be a string"}},
		{"all at once", `{"id":7,"type":"x","timestamp":"now","data":{"sequence":"1"},"more":1}`, []string{
			"/id must be a string", "/type " + kinds, "/timestamp must be an RFC 3339 time",
			"/data/sequence must be an integer", "/data/shipmentId is required", "/more is not a known member",
		}},
		{"repeated member", `{"type":"shipment.created","type":"x","data":{"shipmentId":"s"},"id":5}`, []string{"/type is given twice", "/id must be a string"}},
		{"repeated by an escape", `{"type":"shipment.created","typ\u0065":"x","data":{"shipmentId":"s"}}`, []string{"/type is given twice"}},
		{"repeated deep down", ok(`,"x":[{"a":1,"a":1,"a":2},{"a":1}],"y":{"b":{},"b":[]}`), []string{"/data/x/0/a is given twice", "/data/x/0/a is given twice", "/data/y/b is given twice"}},
		{"repeated, then not JSON", ok(`,"x":1,"x":2,"y":oops`), []string{" is not valid JSON at byte 68"}},
		{"U+0000", ok(`,"x":"a\u0000b","y":["\\u0000","\\\u0000"]`), []string{"/data/x must not have U+0000", "/data/y/1 must not have U+0000"}},
		{"U+0000 in a name", ok(`,"x\u0000":1`), []string{"/data/x\x00 must not have U+0000"}},
		{"U+0000 in shipmentId", `{"type":"shipment.created","data":{"shipmentId":"\u0000"}}`, []string{"/data/shipmentId must not have U+0000"}},
		{"depth 64", ok(`,"x":` + nested(62)), nil},
		{"depth 65", ok(`,"x":` + nested(63) + `,"sequence":"1"`), []string{"/data/x" + strings.Repeat("/0", 62) + " is nested deeper than 64 levels", "/data/sequence must be an integer"}},
		{"depth 10,000", ok(`,"x":` + nested(9000)), []string{"/data/x" + strings.Repeat("/0", 62) + " is nested deeper than 64 levels"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, faults := envelope.Decode([]byte(row.body))
			var got []string
			for _, f := range faults {
				got = append(got, f.Pointer+" "+f.Detail)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Fatalf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Every documented field, with a value of a wrong type and one of the right type.
func TestDocumentedFields(t *testing.T) {
	t.Parallel()
	const (
		str, integer, number = "must be a string", "must be an integer", "must be a number"
		boolean, clock       = "must be true or false", "must be an RFC 3339 time"
		object, array        = "must be an object", "must be an array"
	)
	place := func(name string) [][4]string {
		rows := [][4]string{{"", name + "/latitude", `"1"`, number}, {"", name + "/longitude", `null`, number}, {"", name, `[]`, object}}
		for _, member := range []string{"city", "state", "postalCode", "countryCode", "facility"} {
			rows = append(rows, [4]string{"", name + "/" + member, `7`, str})
		}
		return rows
	}
	rows := [][4]string{ // event type ("": each), pointer below data, wrong value, detail
		{"", "trackingNumber", `1`, str},
		{"", "reference", `null`, str},
		{"", "orderId", `[]`, str},
		{"", "sequence", `"1"`, integer},
		{"", "sequence", `1.5`, integer},
		{"", "sequence", `1.5e0`, integer},
		{"", "sequence", `15e-1`, integer},
		{"", "sequence", `1e-999999999999`, integer},
		{"", "schemaVersion", `1.5`, "must be a string or an integer"},
		{"", "schemaVersion", `{}`, "must be a string or an integer"},
		{"", "carrier", `"dhl"`, object},
		{"", "carrier/code", `1`, str},
		{"", "carrier/name", `1`, str},
		{"", "carrier/serviceLevel", `1`, str},
		{"", "status", `1`, str},
		{"", "previousStatus", `1`, str},
		{"", "substatus", `"x"`, object},
		{"", "substatus/code", `1`, str},
		{"", "substatus/text", `1`, str},
		{"", "substatus/actionRequired", `"yes"`, boolean},
		{"", "occurredAt", `"yesterday"`, clock},
		{"", "recordedAt", `1763297051`, clock},
		{"", "utcOffset", `1`, str},
		{"", "estimatedDeliveryAt", `"2026-11-19"`, clock},
		{"", "originalEstimatedDeliveryAt", `""`, clock},
		{"", "parcels", `{}`, array},
		{"", "parcels/0", `"box"`, object},
		{"", "parcels/0/weight", `"2"`, number},
		{"", "parcels/0/length", `"2"`, number},
		{"", "parcels/0/width", `"2"`, number},
		{"", "parcels/0/height", `"2"`, number},
		{"", "parcels/0/weightUnit", `2`, str},
		{"", "parcels/0/dimensionUnit", `2`, str},
		{"", "parcels/0/packaging", `2`, str},
		{"", "carrierStatus", `"OK"`, object},
		{"", "carrierStatus/code", `1`, str},
		{"", "carrierStatus/description", `1`, str},
		{"", "trackingUrl", `1`, str},
		{"", "metadata", `"x"`, object},
		{"", "test", `"true"`, boolean},
		{"created", "labelCreatedAt", `"x"`, clock},
		{"created", "shipDate", `"soon"`, "must be a date or an RFC 3339 time"},
		{"created", "shipDate", `"2026-02-30"`, "must be a date or an RFC 3339 time"},
		{"created", "serviceLevel", `1`, str},
		{"created", "promisedDeliveryAt", `"x"`, clock},
		{"created", "incoterm", `1`, str},
		{"in_transit", "checkpoint", `"x"`, object},
		{"in_transit", "checkpoint/code", `1`, str},
		{"in_transit", "checkpoint/description", `1`, str},
		{"in_transit", "checkpoint/occurredAt", `"x"`, clock},
		{"in_transit", "checkpoint/location", `"x"`, object},
		{"in_transit", "checkpoint/location/city", `1`, str},
		{"in_transit", "milestone", `1`, str},
		{"in_transit", "etaChangedBySeconds", `"1"`, number},
		{"delivered", "deliveredAt", `"x"`, clock},
		{"delivered", "signedBy", `1`, str},
		{"delivered", "proofOfDelivery", `{}`, array},
		{"delivered", "proofOfDelivery/0/type", `1`, str},
		{"delivered", "proofOfDelivery/0/url", `1`, str},
		{"delivered", "proofOfDelivery/0/capturedAt", `"x"`, clock},
		{"delivered", "deliveryLocation", `1`, str},
		{"delivered", "onTime", `1`, boolean},
		{"delivered", "attemptCount", `1.25`, integer},
		{"exception", "reason", `"x"`, object},
		{"exception", "reason/code", `4`, str},
		{"exception", "reason/text", `4`, str},
		{"exception", "severity", `1`, str},
		{"exception", "actionRequired", `"x"`, boolean},
		{"exception", "resolution", `1`, str},
		{"exception", "nextAttemptAt", `"x"`, clock},
		{"exception", "returnToSender", `0`, boolean},
		{"exception", "revisedEstimatedDeliveryAt", `"x"`, clock},
	}
	rows = append(rows, place("location")...)
	rows = append(rows, place("origin")...)
	rows = append(rows, place("destination")...)
	for _, row := range rows {
		// {"a":{"b":value}} out of a/b; a 0 is the one element of an array.
		members := row[2]
		parts := strings.Split(row[1], "/")
		for _, part := range slices.Backward(parts) {
			if part == "0" {
				members = "[" + members + "]"
			} else {
				members = `{"` + part + `":` + members + `}`
			}
		}
		members = "," + members[1:len(members)-1]
		for _, kind := range []string{"created", "in_transit", "delivered", "exception"} {
			var want envelope.Faults
			if row[0] == "" || row[0] == kind {
				want = envelope.Faults{{Pointer: "/data/" + row[1], Detail: row[3]}}
			}
			first := of(kind, members)
			last := `{"data":{"shipmentId":"s"` + members + `},"type":"shipment.` + kind + `"}`
			for _, body := range []string{first, last} {
				if _, got := envelope.Decode([]byte(body)); cmp.Diff(want, got) != "" {
					t.Errorf("%s: faults %v, want %v", body, got, want)
				}
			}
		}
	}
	untouched := `,"Sequence":"1","carrier":{"Code":5},"declaredValue":null,"anything":[null,{"sequence":"x"}],"metadata":{"test":5}`
	if _, faults := envelope.Decode([]byte(ok(untouched))); faults != nil {
		t.Errorf("fields that are not documented: %v", faults)
	}
	if _, faults := envelope.Decode([]byte(ok(`,"sequ\u0065nce":"x"`))); len(faults) != 1 {
		t.Errorf("an escaped name gets past the check: %v", faults)
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	good := []string{
		"2026-11-16T13:04:11Z", "2026-11-16T13:04:11.123456789Z", "2026-11-16T13:04:11.1234567890123Z", "2026-11-16T13:04:11+05:45",
		"2026-11-16T13:04:11-12:00", "2026-11-16T13:04:11-00:00", "2024-02-29T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
		"2026-11-16t13:04:11z", "2026-11-16t13:04:11.5+01:00", "2016-12-31T23:59:60Z", "2016-12-31T18:59:60-05:00",
		"9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00",
	}
	bad := []string{
		"", "2026-11-16", "2026-11-16T13:04:11", "2026-11-16 13:04:11Z", "2026-11-16T13:04Z", "2026-11-16T1:04:11Z",
		"2026-11-16T13:04:11,5Z", "2026-11-16T13:04:11.Z", "2026-11-16T13:04:11+0100", "2026-11-16T13:04:11+24:00", "2026-11-16T13:04:11+01:60",
		"2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-16T24:00:00Z", "2026-11-16T13:04:60Z", "0000-01-01T00:00:00Z",
		"10000-01-01T00:00:00Z", "-2026-11-16T13:04:11Z", " 2026-11-16T13:04:11Z", "2026-11-16T13:04:11Z ", "1763297051",
		"2016-12-31T23:59:60-05:00", "2026-11-16T13:04:11." + strings.Repeat("0", 60) + "Z",
	}
	for i, stamp := range append(good, bad...) {
		body := `{"type":"shipment.created","timestamp":"` + stamp + `","data":{"shipmentId":"s"}}`
		event, faults := envelope.Decode([]byte(body))
		if fine := i < len(good); fine != (faults == nil) {
			t.Errorf("timestamp %q: faults %v", stamp, faults)
		} else if fine && event.Timestamp != stamp {
			t.Errorf("timestamp %q became %q", stamp, event.Timestamp)
		}
	}
	event, faults := envelope.Decode([]byte(`{"type":"shipment.created","timestamp":"2026\u002d11-16T13:04:11Z","data":{"shipmentId":"s"}}`))
	if faults != nil || event.Timestamp != "2026-11-16T13:04:11Z" {
		t.Errorf("timestamp with an escape = %q, %v", event.Timestamp, faults)
	}
}

func TestAbsentMembersStayEmpty(t *testing.T) {
	t.Parallel()
	event, faults := envelope.Decode([]byte(ok("")))
	want := envelope.Event{Type: domain.ShipmentCreated, Data: []byte(`{"shipmentId":"s"}`)}
	if diff := cmp.Diff(want, event); diff != "" || faults != nil {
		t.Fatalf("event (-want +got), faults %v:\n%s", faults, diff)
	}
}

// What is wrong is named, what was found is not told.
func TestValuesAreNotEchoed(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, body := range []string{
		`{"id":"hunter2!","type":"hunter2","timestamp":"hunter2","data":{"shipmentId":5,"sequence":"hunter2","x":"hunter2\u0000"},"y":"hunter2"}`,
		`{"id":"hunter2`, `hunter2`, `{"a":hunter2}`, `{"a":"hunter2"}hunter2`, "{\"a\":\"hunter2\xff\"}", `["hunter2"]`, `{"a":"hunter2","a":"hunter2"}`,
	} {
		_, _, faults, _ := envelope.DecodeAny(t.Context(), []byte(body))
		if faults == nil {
			t.Errorf("%s is taken", body)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", faults, []envelope.Fault(faults)), secret) {
			t.Errorf("%s: a value is echoed: %v", body, faults)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	batch := func(n, bad int) []byte {
		out := []byte("[")
		for i := range n {
			if i > 0 {
				out = append(out, ',')
			}
			if i == bad {
				out = append(out, of("created", `,"sequence":"1"`)...)
			} else {
				out = fmt.Appendf(out, `{"id":"e%d","type":"shipment.created","data":{"shipmentId":"s"}}`, i)
			}
		}
		return append(out, ']')
	}
	events, many, faults, _ := envelope.DecodeAny(t.Context(), batch(1000, -1))
	if faults != nil || !many || len(events) != 1000 || events[999].ID != "e999" {
		t.Fatalf("batch of 1000: %d events, %v", len(events), faults)
	}
	count := envelope.Faults{{Detail: "must have 1 to 1000 events"}}
	rows := map[string]struct {
		body []byte
		want envelope.Faults
	}{
		"none":        {[]byte("[]"), count},
		"1001":        {batch(1001, -1), count},
		"one of 1000": {batch(1000, 731), envelope.Faults{{Pointer: "/731/data/sequence", Detail: "must be an integer"}}},
		"two kinds": {[]byte(`[5,{"type":"shipment.created"},` + ok("") + `,{}]`), envelope.Faults{
			{Pointer: "/0", Detail: "must be an object"},
			{Pointer: "/1/data", Detail: "is required"}, {Pointer: "/3/type", Detail: "is required"}, {Pointer: "/3/data", Detail: "is required"},
		}},
		"nested array": {[]byte(`[[` + ok("") + `]]`), envelope.Faults{{Pointer: "/0", Detail: "must be an object"}}},
		"not closed":   {[]byte(`[` + ok("")), envelope.Faults{{Detail: "is not valid JSON: it ends too early"}}},
		"comma":        {[]byte(`[` + ok("") + `,]`), envelope.Faults{{Detail: "is not valid JSON at byte 54"}}},
		"depth 64":     {[]byte(`[` + ok(`,"x":`+strings.Repeat("[", 62)+strings.Repeat("]", 62)) + `]`), nil},
		"depth 65": {
			[]byte(`[` + ok(`,"x":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)) + `]`),
			envelope.Faults{{Pointer: "/0/data/x" + strings.Repeat("/0", 62), Detail: "is nested deeper than 64 levels"}},
		},
		"scope ends with its event": {[]byte(`[` + of("delivered", `,"onTime":1`) + `,` + of("created", `,"onTime":1`) + `]`), envelope.Faults{
			{Pointer: "/0/data/onTime", Detail: "must be true or false"},
		}},
	}
	for name, row := range rows {
		if _, got, _ := envelope.DecodeBatch(t.Context(), row.body); cmp.Diff(row.want, got) != "" {
			t.Errorf("%s: faults %v, want %v", name, got, row.want)
		}
	}
	if _, faults, _ := envelope.DecodeBatch(t.Context(), []byte(ok(""))); faults == nil {
		t.Error("DecodeBatch takes a single event")
	}
	if events, many, faults, _ := envelope.DecodeAny(t.Context(), []byte(" \n"+ok(""))); many || faults != nil || len(events) != 1 {
		t.Errorf("single event: %d, %v, %v", len(events), many, faults)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	sized := func(n int) string {
		empty := len(ok(`,"x":""`))
		return ok(`,"x":"` + strings.Repeat("x", n-empty) + `"`)
	}
	if _, faults := envelope.Decode([]byte("  " + sized(envelope.MaxEventSize) + "  ")); faults != nil {
		t.Errorf("event of the greatest size: %v", faults)
	}
	_, faults := envelope.Decode([]byte(sized(envelope.MaxEventSize + 1)))
	if !errors.Is(faults, envelope.ErrTooLarge) || faults[0].Pointer != "" {
		t.Errorf("event one byte larger: %v", faults)
	}
	_, faults, _ = envelope.DecodeBatch(t.Context(), []byte("["+ok("")+","+sized(envelope.MaxEventSize+1)+"]"))
	if !errors.Is(faults, envelope.ErrTooLarge) || faults[0].Pointer != "/1" || len(faults) != 1 {
		t.Errorf("one too large in a batch: %v", faults)
	}
	if _, faults := envelope.Decode([]byte(`{}`)); errors.Is(faults, envelope.ErrTooLarge) {
		t.Error("every fault counts as too large")
	}
}

// A small body can't make the answer, or the work, grow without bound.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	body.WriteString(`{"type":"shipment.delivered","data":{"shipmentId":"s","proofOfDelivery":[`)
	body.WriteString(strings.TrimSuffix(strings.Repeat(`5,`, 20_000), ","))
	body.WriteString(`]}}`)
	for _, text := range []string{body.String(), "[" + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 1000), ",") + "]", strings.Replace(body.String(), "proofOfDelivery", "parcels", 1)} {
		_, _, faults, _ := envelope.DecodeAny(t.Context(), []byte(text))
		if len(faults) != 100 || faults[99].Detail != "has more faults, which are not listed here" {
			t.Errorf("%d faults", len(faults))
		}
		if n := len(faults.Error()); n > 4096 {
			t.Errorf("error text of %d bytes", n)
		}
	}
}

func TestErrorTextIsPrintable(t *testing.T) {
	t.Parallel()
	_, faults := envelope.Decode([]byte(`{"a\r\nX-Injected: 1é":1,"type":"shipment.created","data":{"shipmentId":"s"}}`))
	if got := faults.Error(); strings.ContainsAny(got, "\r\né") {
		t.Errorf("error text %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range samples(f) {
		f.Add(body)
	}
	for _, seed := range []string{
		ok(""), "[" + ok("") + "]", `{"data":{"shipmentId":"\u0000"}}`, `{"type":"a","type":"b"}`, ok(`,"x":[[[]]],"x":1`), ok("") + "x",
		`{"specversion":"1.0","id":"a","source":"/s","type":"shipment.created","data":{"shipmentId":"s"}}`,
	} {
		f.Add([]byte(seed))
	}
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(body.Text)
		f.Add([]byte(ok(`,"x":` + string(body.Text))))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<20 {
			return
		}
		before := bytes.Clone(body)
		var events []envelope.Event
		var faults envelope.Faults
		hold(t, len(body), func() envelope.Faults {
			events, _, faults, _ = envelope.DecodeAny(t.Context(), body)
			return faults
		})
		_, err := envelope.FromBus("default", nil, body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if faults != nil {
			return
		}
		if len(events) == 1 && err != nil && body[bytes.IndexAny(body, "[{")] == '{' {
			t.Fatalf("REST takes it, the bus does not: %v", err)
		}
		var reference []json.RawMessage
		if single := json.RawMessage(body); json.Unmarshal(body, &reference) != nil {
			reference = []json.RawMessage{single}
		}
		for i, event := range events {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(reference[i], &members); err != nil {
				t.Fatalf("accepted, though not JSON: %v", err)
			}
			if !bytes.Equal(members["data"], event.Data) {
				t.Fatalf("data %q became %q", members["data"], event.Data)
			}
			event.ID, event.Timestamp = "evt_1", "2026-11-16T13:04:11Z"
			var payload map[string]json.RawMessage
			if err := json.Unmarshal(event.Payload(), &payload); err != nil {
				t.Fatalf("payload is not JSON: %v", err)
			}
			if !bytes.Equal(payload["data"], event.Data) || len(payload) != 4 {
				t.Fatalf("payload %s", event.Payload())
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	body := samples(b)["created"]
	b.Run("single", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if event, faults := envelope.Decode(body); faults != nil || event.ID == "" {
				b.Fatal(faults)
			}
		}
	})
	batch := []byte("[" + strings.TrimSuffix(strings.Repeat(string(body)+",", 1000), ",") + "]")
	b.Run("batch of 1000", func(b *testing.B) {
		b.SetBytes(int64(len(batch)))
		b.ReportAllocs()
		for b.Loop() {
			if _, faults, err := envelope.DecodeBatch(b.Context(), batch); err != nil || faults != nil {
				b.Fatal(faults)
			}
		}
	})
	b.Run("encoding/json valid", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			json.Valid(body)
		}
	})
}

// Whole numbers are taken in every way in which JSON has them, and stay as they are written.
func TestIntegersHoweverWritten(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"7.0", "1e3", "1.0", "1E+3", "7.00e0", "1.5e1", "10e-1", "-0.0", "0e-99", "-3.0", "12.500e2", "1e0003"} {
		body := `{"type":"shipment.created","data":{"shipmentId":"s","sequence":` + number + `,"schemaVersion":` + number + `}}`
		event, faults := envelope.Decode([]byte(body))
		if want := `{"shipmentId":"s","sequence":` + number + `,"schemaVersion":` + number + `}`; faults != nil || string(event.Data) != want {
			t.Errorf("%s: %v, %s", number, faults, event.Data)
		}
	}
}
