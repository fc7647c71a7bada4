// Package sample has a realistic event of each type, for trying a webhook out.
package sample

import (
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// Data returns the data of a sample event that happened at the given time. It is marked
// "test": true and has every kind of value that the documented fields may hold.
func Data(t domain.EventType, at time.Time) []byte {
	at = at.UTC().Truncate(time.Second)
	stamp := func(offset time.Duration) string { return at.Add(offset).Format(time.RFC3339) }
	return []byte(strings.NewReplacer(
		"$NOW", stamp(0), "$DAY", at.Format(time.DateOnly), "$SOON", stamp(4*time.Hour),
		"$PROMISED", stamp(72*time.Hour), "$EXPECTED", stamp(68*time.Hour),
		"$REVISED", stamp(92*time.Hour), "$BEFORE", stamp(-5*time.Minute),
	).Replace(template(t)))
}

const shared = `{"test":true,"shipmentId":"shp_sample","trackingNumber":"JD014600003828392837",` +
	`"reference":"PO-2026-118823","schemaVersion":"2026-11-01",` +
	`"carrier":{"code":"dhl_express","name":"DHL Express","serviceLevel":"express_worldwide"},` +
	`"occurredAt":"$NOW","recordedAt":"$NOW","utcOffset":"+00:00",`

const tail = `"trackingUrl":"https://track.example.com/JD014600003828392837","metadata":{"channel":"web"}}`

func template(t domain.EventType) string {
	switch t {
	case domain.ShipmentCreated:
		return shared + `"orderId":"SO-55120-NL","sequence":1,"status":"created","labelCreatedAt":"$NOW",` +
			`"shipDate":"$DAY","serviceLevel":"express_worldwide","promisedDeliveryAt":"$PROMISED",` +
			`"estimatedDeliveryAt":"$EXPECTED","originalEstimatedDeliveryAt":"$EXPECTED",` +
			`"origin":{"city":"Rotterdam","state":"Zuid-Holland","postalCode":"3011 AB","countryCode":"NL","facility":"RTM Gateway"},` +
			`"destination":{"city":"Springfield","state":"IL","postalCode":"62704","countryCode":"US"},` +
			`"parcels":[{"weight":2.35,"weightUnit":"kg","length":40,"width":30,"height":20,"dimensionUnit":"cm","packaging":"box"}],` +
			`"incoterm":"DAP","declaredValue":{"amount":"418.00","currency":"EUR"},` + tail
	case domain.ShipmentInTransit:
		return shared + `"sequence":2,"status":"in_transit","previousStatus":"created",` +
			`"substatus":{"code":"customs_in","text":"Arrivée au bureau de douane","actionRequired":false},` +
			`"location":{"city":"Köln","state":"Nordrhein-Westfalen","postalCode":"51147","countryCode":"DE",` +
			`"latitude":50.8659,"longitude":7.142744,"facility":"CGN Hub"},` +
			`"checkpoint":{"code":"DF","description":"Departed facility","occurredAt":"$NOW","location":{"city":"Köln","countryCode":"DE"}},` +
			`"milestone":"departed","estimatedDeliveryAt":"$EXPECTED","originalEstimatedDeliveryAt":"$EXPECTED",` +
			`"carrierStatus":{"code":"PL","description":"Processed at COLOGNE - GERMANY"},` + tail
	case domain.ShipmentException:
		return shared + `"sequence":3,"status":"exception","previousStatus":"in_transit",` +
			`"substatus":{"code":"customs_delay","text":"Commercial invoice incomplete","actionRequired":true},` +
			`"location":{"city":"Cincinnati","state":"OH","countryCode":"US","facility":"CVG"},` +
			`"reason":{"code":"004","text":"Customs delay"},"severity":"high","actionRequired":true,` +
			`"resolution":"Send a corrected commercial invoice","nextAttemptAt":"$SOON","returnToSender":false,` +
			`"revisedEstimatedDeliveryAt":"$REVISED","estimatedDeliveryAt":"$REVISED","originalEstimatedDeliveryAt":"$EXPECTED",` +
			`"carrierStatus":{"code":"CD","description":"Clearance delay"},` + tail
	default: // shipment.delivered
		return shared + `"sequence":4,"status":"delivered","previousStatus":"in_transit",` +
			`"location":{"city":"Springfield","state":"IL","postalCode":"62704","countryCode":"US","latitude":39.781721,"longitude":-89.650148},` +
			`"deliveredAt":"$NOW","signedBy":"J. O'Neill",` +
			`"proofOfDelivery":[{"type":"signature","url":"https://pod.example.com/s/9f3k2m7q.png","capturedAt":"$BEFORE"}],` +
			`"deliveryLocation":"reception","onTime":true,"attemptCount":1,` +
			`"carrierStatus":{"code":"OK","description":"Delivered"},` + tail
	}
}
