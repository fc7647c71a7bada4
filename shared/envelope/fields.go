package envelope

import "waybill.dev/shared/domain"

// memberKind is the type that a documented member must have.
type memberKind uint8

const (
	kindAny memberKind = iota
	kindString
	kindShipmentID
	kindTime
	kindDate // a date or a time
	kindNumber
	kindInteger
	kindVersion // a string or an integer
	kindBoolean
	kindObject
	kindArray // of objects
)

// eventSet is a set of event types; empty stands for all of them.
type eventSet uint8

const (
	onCreated eventSet = 1 << iota
	onInTransit
	onDelivered
	onException
)

func setOf(t domain.EventType) eventSet {
	switch t {
	case domain.ShipmentCreated:
		return onCreated
	case domain.ShipmentInTransit:
		return onInTransit
	case domain.ShipmentDelivered:
		return onDelivered
	case domain.ShipmentException:
		return onException
	}
	return 0
}

// field describes a documented member. Members that are not in fields are not checked, neither in
// an object nor in the objects of an array.
type field struct {
	kind    memberKind
	onlyFor eventSet
	fields  fields
}

// fields are the documented members of an object, by name.
type fields map[string]field

// text returns fields of kind string.
func text(names ...string) fields {
	f := make(fields, len(names))
	for _, name := range names {
		f[name] = field{kind: kindString}
	}
	return f
}

// with returns f with one more field.
func (f fields) with(name string, more field) fields {
	f[name] = more
	return f
}

// dataFields returns the documented fields of data; docs/producers.md has them as a table. A member
// of some event types is not checked in events of other types.
func dataFields() fields {
	location := text("city", "state", "postalCode", "countryCode", "facility").
		with("latitude", field{kind: kindNumber}).
		with("longitude", field{kind: kindNumber})
	parcel := text("weightUnit", "dimensionUnit", "packaging").
		with("weight", field{kind: kindNumber}).
		with("length", field{kind: kindNumber}).
		with("width", field{kind: kindNumber}).
		with("height", field{kind: kindNumber})
	return fields{
		"shipmentId":                  {kind: kindShipmentID},
		"trackingNumber":              {kind: kindString},
		"reference":                   {kind: kindString},
		"orderId":                     {kind: kindString},
		"sequence":                    {kind: kindInteger},
		"schemaVersion":               {kind: kindVersion},
		"carrier":                     {kind: kindObject, fields: text("code", "name", "serviceLevel")},
		"status":                      {kind: kindString},
		"previousStatus":              {kind: kindString},
		"substatus":                   {kind: kindObject, fields: text("code", "text").with("actionRequired", field{kind: kindBoolean})},
		"occurredAt":                  {kind: kindTime},
		"recordedAt":                  {kind: kindTime},
		"utcOffset":                   {kind: kindString},
		"location":                    {kind: kindObject, fields: location},
		"estimatedDeliveryAt":         {kind: kindTime},
		"originalEstimatedDeliveryAt": {kind: kindTime},
		"origin":                      {kind: kindObject, fields: location},
		"destination":                 {kind: kindObject, fields: location},
		"parcels":                     {kind: kindArray, fields: parcel},
		"carrierStatus":               {kind: kindObject, fields: text("code", "description")},
		"trackingUrl":                 {kind: kindString},
		"metadata":                    {kind: kindObject},
		"test":                        {kind: kindBoolean},

		"labelCreatedAt":     {kind: kindTime, onlyFor: onCreated},
		"shipDate":           {kind: kindDate, onlyFor: onCreated},
		"serviceLevel":       {kind: kindString, onlyFor: onCreated},
		"promisedDeliveryAt": {kind: kindTime, onlyFor: onCreated},
		"incoterm":           {kind: kindString, onlyFor: onCreated},

		"checkpoint": {kind: kindObject, onlyFor: onInTransit, fields: text("code", "description").
			with("occurredAt", field{kind: kindTime}).
			with("location", field{kind: kindObject, fields: location})},
		"milestone":           {kind: kindString, onlyFor: onInTransit},
		"etaChangedBySeconds": {kind: kindNumber, onlyFor: onInTransit},

		"deliveredAt":      {kind: kindTime, onlyFor: onDelivered},
		"signedBy":         {kind: kindString, onlyFor: onDelivered},
		"proofOfDelivery":  {kind: kindArray, onlyFor: onDelivered, fields: text("type", "url").with("capturedAt", field{kind: kindTime})},
		"deliveryLocation": {kind: kindString, onlyFor: onDelivered},
		"onTime":           {kind: kindBoolean, onlyFor: onDelivered},
		"attemptCount":     {kind: kindInteger, onlyFor: onDelivered},

		"reason":                     {kind: kindObject, onlyFor: onException, fields: text("code", "text")},
		"severity":                   {kind: kindString, onlyFor: onException},
		"actionRequired":             {kind: kindBoolean, onlyFor: onException},
		"resolution":                 {kind: kindString, onlyFor: onException},
		"nextAttemptAt":              {kind: kindTime, onlyFor: onException},
		"returnToSender":             {kind: kindBoolean, onlyFor: onException},
		"revisedEstimatedDeliveryAt": {kind: kindTime, onlyFor: onException},
	}
}

// documented is the table that every decoding reads; it is never changed.
var documented = dataFields() //nolint:gochecknoglobals // a table
