package envelope_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

const busData = `{"shipmentId":"s","n":0.1000}`

func header(pairs ...string) map[string][]string {
	h := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

func binary(pairs ...string) map[string][]string {
	h := header("ce-specversion", "1.0", "ce-id", "c1", "ce-source", "/warehouse", "ce-type", "shipment.created")
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			delete(h, pairs[i])
		} else {
			h[pairs[i]] = []string{pairs[i+1]}
		}
	}
	return h
}

// structured returns a CloudEvent with the given members changed; null in Go removes one.
func structured(t *testing.T, change map[string]any) string {
	t.Helper()
	event := map[string]any{
		"specversion": "1.0", "id": "c1", "source": "/warehouse", "type": "shipment.created",
		"time": "2026-11-16T13:04:11+01:00", "data": json.RawMessage(busData),
	}
	for name, value := range change {
		if event[name] = value; value == nil {
			delete(event, name)
		}
	}
	body, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestFromBusTakes(t *testing.T) {
	t.Parallel()
	plain := `{"type":"shipment.created","data":` + busData + `}`
	withID := `{"id":"e1","type":"shipment.created","timestamp":"2026-11-16T13:04:11Z","data":` + busData + `}`
	cloud := header("Content-Type", "application/cloudevents+json; charset=UTF-8")
	cloudWithID := header("content-type", "application/cloudevents+json", "Nats-Msg-Id", "acme.c1")
	rows := []struct {
		name    string
		headers map[string][]string
		body    string
		want    envelope.Event
	}{
		{"plain, nothing given", nil, plain, envelope.Event{}},
		{"plain with id", nil, withID, envelope.Event{ID: "e1", Timestamp: "2026-11-16T13:04:11Z"}},
		{"id of the message", header("Nats-Msg-Id", "m1"), plain, envelope.Event{ID: "m1"}},
		{"id of the message with account", header("Nats-Msg-Id", "acme.m1"), plain, envelope.Event{ID: "m1"}},
		{"both, equal", header("Nats-Msg-Id", "e1"), withID, envelope.Event{ID: "e1", Timestamp: "2026-11-16T13:04:11Z"}},
		{"both, equal with account", header("Nats-Msg-Id", "acme.e1"), withID, envelope.Event{ID: "e1", Timestamp: "2026-11-16T13:04:11Z"}},
		{"the server knows one case only", header("nats-msg-id", "other"), withID, envelope.Event{ID: "e1", Timestamp: "2026-11-16T13:04:11Z"}},
		{"structured", cloud, structured(t, nil), envelope.Event{ID: "c1", Timestamp: "2026-11-16T13:04:11+01:00"}},
		{"structured, no content type", nil, structured(t, nil), envelope.Event{ID: "c1", Timestamp: "2026-11-16T13:04:11+01:00"}},
		{"structured with message id", cloudWithID, structured(t, nil), envelope.Event{ID: "c1", Timestamp: "2026-11-16T13:04:11+01:00"}},
		{
			"structured with all else", cloud,
			strings.Replace(structured(t, map[string]any{
				"subject": "s", "dataschema": "https://example.com/s", "datacontenttype": "application/json", "sequence": "1", "sampled": true, "partition": 5,
			}), `{`, `{"traceparent":null,"data_base64":null,`, 1), envelope.Event{ID: "c1", Timestamp: "2026-11-16T13:04:11+01:00"},
		},
		{"structured without time", cloud, structured(t, map[string]any{"time": nil}), envelope.Event{ID: "c1"}},
		{"binary", binary("ce-time", "2026-11-16T13:04:11Z", "content-type", "application/json"), busData, envelope.Event{ID: "c1", Timestamp: "2026-11-16T13:04:11Z"}},
		{"binary in other case", header("CE-SpecVersion", "1.0", "Ce-Id", "c1", "Ce-Source", "/w", "cE-type", "shipment.created"), busData, envelope.Event{ID: "c1"}},
		{"binary percent-encoded", binary("ce-id", "c%31", "ce-source", "%E6%9D%B1"), busData, envelope.Event{ID: "c1"}},
		{"binary with message id", binary("Nats-Msg-Id", "c1"), busData, envelope.Event{ID: "c1"}},
		{"plain with a content type", header("Content-Type", "application/json"), plain, envelope.Event{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := envelope.FromBus("acme", row.headers, []byte(row.body))
			if err != nil {
				t.Fatal(err)
			}
			row.want.Type, row.want.Data = domain.ShipmentCreated, []byte(busData)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Fatalf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromBusRejects(t *testing.T) {
	t.Parallel()
	withID := `{"id":"e1","type":"shipment.created","data":` + busData + `}`
	noID := `{"type":"shipment.created","data":` + busData + `}`
	cloud := header("content-type", "application/cloudevents+json")
	rows := []struct {
		name    string
		headers map[string][]string
		body    string
		want    string
	}{
		{"another message id", header("Nats-Msg-Id", "hunter2"), withID, "/id: differs from Nats-Msg-Id"},
		{"another account's", header("Nats-Msg-Id", "other.e1"), withID, "/id: differs from Nats-Msg-Id"},
		{"message id outside the grammar", header("Nats-Msg-Id", "hunter2!"), noID, "Nats-Msg-Id must be 1 to 64 characters"},
		{"another account's as id", header("Nats-Msg-Id", "other.e1"), noID, "Nats-Msg-Id must be 1 to 64 characters"},
		{"cloud event and message id differ", header("content-type", "application/cloudevents+json", "Nats-Msg-Id", "x"), structured(t, nil), "/id: differs"},
		{"not JSON", nil, "hunter2", "is not valid JSON"},
		{"empty", nil, "", "is empty"},
		{"array", nil, "[" + withID + "]", "must be an object"},
		{"too large", nil, strings.Replace(noID, `"n"`, `"`+strings.Repeat("x", envelope.MaxEventSize)+`"`, 1), "is larger than"},
		{"batch of cloud events", header("content-type", "application/cloudevents-batch+json"), "[]", "must be one CloudEvent"},
		{"avro", header("content-type", "application/cloudevents+avro"), "x", "JSON format"},
		{"specversion 0.3", cloud, structured(t, map[string]any{"specversion": "0.3"}), "/specversion: must be 1.0"},
		{"no specversion", cloud, structured(t, map[string]any{"specversion": nil}), "/specversion: is required"},
		{"no id", cloud, structured(t, map[string]any{"id": nil}), "/id: is required"},
		{"id outside the grammar", cloud, structured(t, map[string]any{"id": "hunter2.1"}), "/id: must be 1 to 64"},
		{"no source", cloud, structured(t, map[string]any{"source": nil}), "/source: is required"},
		{"empty source", cloud, structured(t, map[string]any{"source": ""}), "/source: must be a URI reference"},
		{"no type", cloud, structured(t, map[string]any{"type": nil}), "/type: is required"},
		{"other type", cloud, structured(t, map[string]any{"type": "com.example.hunter2"}), "/type: must be one of"},
		{"bad time", cloud, structured(t, map[string]any{"time": "hunter2"}), "/time: must be an RFC 3339 time"},
		{"no data", cloud, structured(t, map[string]any{"data": nil}), "/data: is required"},
		{"data null", cloud, strings.Replace(structured(t, map[string]any{"data": nil}), `{`, `{"data":null,`, 1), "/data: must be an object"},
		{"data_base64", cloud, structured(t, map[string]any{"data": nil, "data_base64": "aHVudGVyMg=="}), "/data_base64: is not supported"},
		{"data is XML", cloud, structured(t, map[string]any{"datacontenttype": "application/xml"}), "/datacontenttype: must be a JSON media type"},
		{"fault in data", cloud, structured(t, map[string]any{"data": map[string]any{"sequence": "hunter2"}}), "/data/sequence: must be an integer; /data/shipmentId: is required"},
		{"extension in other case", cloud, structured(t, map[string]any{"Subject": "x"}), "/Subject: is not an attribute name"},
		{"extension an object", cloud, structured(t, map[string]any{"ext": map[string]any{}}), "/ext: must be a string, a boolean or an integer"},
		{"structured twice", cloud, strings.Replace(structured(t, nil), "{", `{"id":"x",`, 1), "/id: is given twice"},
		{"structured an array", cloud, "[]", "must be an object"},
		{"binary without specversion", binary("ce-specversion", ""), busData, "ce-specversion is required"},
		{"binary 0.3", binary("ce-specversion", "0.3"), busData, "ce-specversion must be 1.0"},
		{"binary without id", binary("ce-id", "", "Nats-Msg-Id", "m1"), busData, "ce-id is required"},
		{"binary without source", binary("ce-source", ""), busData, "ce-source is required"},
		{"binary without type", binary("ce-type", ""), busData, "ce-type is required"},
		{"binary id outside the grammar", binary("ce-id", "hunter2.1"), busData, "ce-id must be 1 to 64"},
		{"binary bad time", binary("ce-time", "hunter2"), busData, "ce-time must be an RFC 3339 time"},
		{"binary bad percent", binary("ce-id", "%zz"), busData, "broken percent encoding"},
		{"binary XML", binary("content-type", "text/xml"), busData, "content-type must be a JSON media type"},
		{"binary twice", header("ce-id", "a", "ce-id", "b"), busData, "more than once"},
		{"binary twice in two cases", header("ce-id", "a", "Ce-Id", "b"), busData, "more than once"},
		{"binary empty", binary(), "", "/data: is empty"},
		{"binary not JSON", binary(), "hunter2", "/data: is not valid JSON"},
		{"binary not an object", binary(), "[]", "/data: must be an object"},
		{"binary fault in data", binary(), `{"shipmentId":"s","carrier":{"code":5}}`, "/data/carrier/code: must be a string"},
		{"binary scoped fault", binary(), `{"shipmentId":"s","incoterm":5}`, "/data/incoterm: must be a string"},
		{"binary too large", binary(), `{"shipmentId":"s","x":"` + strings.Repeat("x", envelope.MaxEventSize) + `"}`, "/data: is larger than"},
		{"binary too deep", binary(), `{"shipmentId":"s","x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, "is nested deeper than 64 levels"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := envelope.FromBus("acme", row.headers, []byte(row.body))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("error %v, want one with %q", err, row.want)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Fatalf("a value is echoed: %v", err)
			}
			if _, ok := errors.AsType[envelope.Faults](err); !ok {
				t.Fatalf("error of type %T", err)
			}
		})
	}
}

// The three ways to publish one event end in one payload.
func TestModesAgree(t *testing.T) {
	t.Parallel()
	for name, body := range samples(t) {
		plain, err := envelope.FromBus("acme", nil, body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		attributes := fmt.Sprintf(`"id":"%s","type":"%s","time":"%s"`, plain.ID, plain.Type, plain.Timestamp)
		cloud := fmt.Sprintf(`{"specversion":"1.0","source":"/w",%s,"data":%s}`, attributes, plain.Data)
		fromStructured, err := envelope.FromBus("acme", header("content-type", "application/cloudevents+json"), []byte(cloud))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fromBinary, err := envelope.FromBus("acme", header("ce-specversion", "1.0", "ce-source", "/w",
			"ce-id", plain.ID, "ce-type", string(plain.Type), "ce-time", plain.Timestamp), plain.Data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, other := range []envelope.Event{fromStructured, fromBinary} {
			if diff := cmp.Diff(string(plain.Payload()), string(other.Payload())); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}
