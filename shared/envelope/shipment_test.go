package envelope_test

import (
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

func TestShipment(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"id":"e","type":"shipment.created","timestamp":"x","data":{"shipmentId":"shp_1"}}`:                    "shp_1",
		`{"id":"e","data":{"other":{"shipmentId":"no","data":[{}]},"shipmentId":"Stra\u00dfe \"1\"","n":0.10}}`: `Straße "1"`,
		`{"data":{"\u0073hipmentId":"shp_2"}}`:                                                                  "shp_2",
		`{"shipmentId":"outside","data":{}}`:                                                                    "",
		`{"data":{"shipmentId":7}}`:                                                                             "",
		`{"data":["shipmentId","a"]}`:                                                                           "",
		`{"n":0.1000}`:                                                                                          "",
		`{"data":{"shipmentId":"cut`:                                                                            "",
		`no JSON`:                                                                                               "",
		``:                                                                                                      "",
	} {
		got := envelope.Shipment("acme", []byte(payload))
		if (got != nil) != (want != "") || got != nil && *got != domain.ShipmentKey("acme", want) {
			t.Errorf("%s: is not of shipment %q", payload, want)
		}
	}
}

func BenchmarkShipment(b *testing.B) {
	payload := []byte(`{"id":"evt_01980f2c7a607c3e9d5a4f1b2c3d4e5f","type":"shipment.created","timestamp":"2026-11-23T12:00:00Z","data":{"trackingNumber":"JD014600003828392837","shipmentId":"shp_9F3K2M7Q","status":"created"}}`)
	b.ReportAllocs()
	for b.Loop() {
		envelope.Shipment("acme", payload)
	}
}
