package verb

import (
	"encoding/json"
	"fmt"
	"net/http"

	"waybill.dev/shared/domain"
)

// allEvents adds all events to the registration of a webhook when none is given.
func allEvents(r *Request, in *Input) error {
	if in.Text("events") != "" {
		return nil
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	var err error
	if body["events"], err = json.Marshal(domain.EventTypes()); err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	r.Body, err = json.Marshal(body)
	return err
}

// fromFile makes the body from a file, unchanged.
func fromFile(r *Request, in *Input) error {
	text, err := in.Read(in.Args[0])
	if err != nil {
		return err
	}
	r.Body = text
	return nil
}

// ofShipment returns the flag that selects events by their shipment.
func ofShipment() Flag {
	return Flag{Name: "shipment", Usage: "only of the shipment with this `id`", In: InQuery, To: "shipmentId"}
}

func deliveryColumns() []Column {
	return []Column{
		{Title: "ID", Member: "id", Form: Ident},
		{Title: "STATUS", Member: "status"},
		{Title: "CREATED", Member: "createdAt", Form: Moment},
		{Title: "HOST", Member: hostMember, Shrinks: true},
		{Title: "ANSWER", Member: answerMember, Shrinks: true, Rare: true},
		{Title: "NEXT", Member: "nextAttemptAt", Form: Until, Rare: true},
		{Title: "TRIES", Member: "attemptCount", Spare: true},
		{Title: "EVENT", Member: "eventId", Spare: true},
		{Title: "TYPE", Member: "eventType", Wide: true},
		{Title: "WEBHOOK", Member: "webhookId", Wide: true},
		{Title: "REASON", Member: "reason", Wide: true},
		{Title: "CLASS", Member: "class", Wide: true},
		{Title: "TEST", Member: "test", Form: YesNo, Wide: true},
		{Title: "UPDATED", Member: "updatedAt", Form: Moment, Wide: true},
	}
}

func events() Noun {
	return Noun{
		Name: "events", Short: "Publish, list and show events",
		Long: "An event is something that happened to a shipment. `waybill trigger` publishes\nsamples.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List events, the newest first",
				Example: "  waybill events list --since 1h --type shipment.delivered",
				Method:  http.MethodGet, Path: eventsPath,
				Flags: concat([]Flag{
					{Name: "type", Usage: "only this event type", In: InQuery, Choices: webhookTypes()},
					{Name: "source", Usage: "only what came over rest or nats, or the alerts of waybill", In: InQuery, Choices: words(domain.Sources())}, ofShipment(),
				}, span("since", "until"), scrolling()),
				Show: View{None: "There are no such events.", Columns: []Column{
					{Title: "ID", Member: "id"}, {Title: "TYPE", Member: "type"}, {Title: "RECEIVED", Member: "receivedAt", Form: Moment},
				}},
			},
			{
				Name: "get", Short: "Show an event with its deliveries", Example: "  waybill events get evt_order4711_created",
				Method: http.MethodGet, Path: eventsPath + "/{id}",
				Args: []Arg{{Word: "EVENT-ID", To: "id", List: eventsPath, ID: "id"}},
				Show: View{
					Rows: "-", // its data is not a list
					Columns: []Column{
						{Title: "ID", Member: "id"}, {Title: "TYPE", Member: "type"}, {Title: "TIMESTAMP", Member: "timestamp"},
						{Title: "RECEIVED", Member: "receivedAt", Form: Moment}, {Title: "DATA", Member: "data", Form: JSON},
					},
					Parts: []Part{{Title: "DELIVERIES", Member: "deliveries", Columns: []Column{
						{Title: "ID", Member: "id", Form: Ident}, {Title: "STATUS", Member: "status"}, {Title: "TRIES", Member: "attemptCount"},
						{Title: "WEBHOOK", Member: "webhookId", Form: Ident},
					}}},
				},
			},
			{
				Name: "publish", Short: "Publish events from a file",
				Long: "Publishes a file as it is: one event, or an array of up to 1000 events, which is\naccepted as a whole or not at all. -: standard input.",
				Example: "  waybill events publish event.json\n" +
					"  echo '{\"type\":\"shipment.created\",\"data\":{\"shipmentId\":\"shp_1\"}}' |\n    waybill events publish -",
				Method: http.MethodPost, Path: eventsPath, Args: []Arg{{Word: "FILE", To: "file", File: true}}, Adjust: fromFile,
				Show: View{Rows: "events", Columns: []Column{
					{Title: "EVENT", Member: "id"}, {Title: "DUPLICATE", Member: "duplicate", Form: YesNo},
				}},
			},
			{
				Name: "rejected", Short: "List messages on the bus that were not valid events", Example: "  waybill events rejected",
				Method: http.MethodGet, Path: "/v1/rejected", Flags: scrolling(),
				Show: View{None: "No message was rejected.", Columns: []Column{
					{Title: "TIME", Member: "time", Form: Moment}, {Title: "SUBJECT", Member: "subject", Shrinks: true},
					{Title: "REASON", Member: "reason", Shrinks: true},
				}},
			},
		},
	}
}

func deliveries() Noun {
	one := []Arg{{Word: "DELIVERY-ID", To: "id", List: deliveriesPath, ID: "id"}}
	return Noun{
		Name: "deliveries", Short: "List, show, explain and retry deliveries",
		Long: "A delivery is one event on its way to one webhook.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List deliveries, the newest first",
				Example: "  waybill deliveries list --status failed --since 24h\n  waybill deliveries list --event evt_order4711_created\n  waybill deliveries list --status failed --follow",
				Method:  http.MethodGet, Path: deliveriesPath,
				Flags: concat([]Flag{
					{Name: "webhook", Usage: "only to the webhook with this `id`", In: InQuery, To: "webhookId", List: webhooksPath},
					{Name: "event", Usage: "only of the event with this `id`", In: InQuery, To: "eventId"},
					{Name: "status", Usage: "pending, delivered, retrying, failed or held", In: InQuery, Choices: words(domain.Statuses())},
					{Name: "type", Usage: "only of this event type", In: InQuery, To: "eventType", Choices: webhookTypes()}, ofShipment(),
					{Name: "reason", Usage: "only with this reason", In: InQuery, Choices: domain.Reasons()},
					{Name: "class", Usage: "how the last attempt ended", In: InQuery, Choices: words(domain.Classes())},
					{Name: "code", Usage: "HTTP status of the last attempt", Kind: Integer, In: InQuery, To: "statusCode"},
					{Name: "test", Usage: "only tests; --test=false: no tests", Kind: Bool, In: InQuery},
				}, span("since", "until"), scrolling()),
				Show: View{None: "There are no such deliveries.", Columns: deliveryColumns()}, More: hostsAndAnswers, Follow: true,
			},
			{
				Name: "get", Short: "Show a delivery with its attempts",
				Long:    "With -o json, each attempt has its URL, and the headers that were sent and\nreceived.",
				Example: "  waybill deliveries get 0AvQ6nH4aXk3LZ0pT1cR8e",
				Method:  http.MethodGet, Path: deliveriesPath + "/{id}", Args: one,
				Show: View{Columns: deliveryColumns(), Parts: []Part{{Title: "ATTEMPTS", Member: "attempts", Columns: []Column{
					{Title: "N", Member: "number"}, {Title: "STARTED", Member: "startedAt", Form: Exact}, {Title: "TOOK", Member: "durationMs", Form: Took},
					{Title: "CLASS", Member: "class"}, {Title: "STATUS", Member: "status"}, {Title: "ERROR", Member: "error", Shrinks: true},
					{Title: "ANSWER", Member: "responseBody", Shrinks: true, Spare: true}, {Title: "TRUNCATED", Member: "responseBodyTruncated", Form: YesNo, Spare: true},
					{Title: "REMOTE", Member: "remoteAddress", Spare: true}, {Title: "PHASES", Member: "phases", Form: Phases, Shrinks: true, Spare: true},
				}}}},
			},
			{
				Name: "retry", Short: "Send a delivery again; its schedule starts anew", Example: "  waybill deliveries retry 0AvQ6nH4aXk3LZ0pT1cR8e",
				Method: http.MethodPost, Path: deliveriesPath + "/{id}/retry", Args: one,
				Show: View{Columns: deliveryColumns()},
			},
			retryMany(),
			explainDelivery(),
		},
	}
}
