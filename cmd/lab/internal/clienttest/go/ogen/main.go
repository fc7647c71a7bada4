//go:build generated

// Command ogen makes five calls with a client that ogen has generated.
package main

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"

	"github.com/ogen-go/ogen/ogenerrors"

	"waybill.dev/clienttest/ogen/client"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

// key is an API key, sent as a bearer token.
type key string

// Bearer implements client.SecuritySource.
func (k key) Bearer(context.Context, client.OperationName) (client.Bearer, error) {
	return client.Bearer{Token: string(k)}, nil
}

// KeyHeader implements client.SecuritySource.
func (key) KeyHeader(context.Context, client.OperationName) (client.KeyHeader, error) {
	return client.KeyHeader{}, ogenerrors.ErrSkipClientSecurity
}

func run(ctx context.Context, server, secret, receiver string) error {
	c, err := client.NewClient(server, key(secret))
	if err != nil {
		return err
	}
	target, err := url.Parse(receiver)
	if err != nil {
		return err
	}
	answer, err := c.RegisterWebhook(ctx, &client.WebhookCreateBody{
		URL: client.NewOptNilNullableWebhookUrl(client.NullableWebhookUrl(*target)), Events: client.WebhookEvents{client.WebhookEventTypeShipmentCreated},
	}, client.RegisterWebhookParams{})
	made, ok := answer.(*client.RegisteredWebhookHeaders)
	if err != nil || !ok {
		return fmt.Errorf("register webhook: %w: %+v", err, answer)
	}
	id := made.Response.ID
	read, err := c.GetWebhook(ctx, client.GetWebhookParams{ID: id})
	if found, ok := read.(*client.GetWebhookOKHeaders); err != nil || !ok || !found.Response.Active {
		return fmt.Errorf("get webhook: %w: %+v", err, read)
	}
	event := client.PublishedEvent{OneOf: client.NewPublishedShipmentCreatedPublishedEventSum(client.PublishedShipmentCreated{Type: "shipment.created", Data: client.ShipmentCreatedData{ShipmentId: "shp_ogen"}})}
	published, err := c.PublishEvents(ctx, client.NewPublishedEventPublishBody(event), client.PublishEventsParams{})
	if taken, ok := published.(*client.AcceptedHeaders); err != nil || !ok || len(taken.Response.Events) != 1 {
		return fmt.Errorf("publish event: %w: %+v", err, published)
	}
	list, err := c.ListDeliveries(ctx, client.ListDeliveriesParams{WebhookId: client.NewOptUUID(id)})
	if _, ok := list.(*client.DeliveryPageHeaders); err != nil || !ok {
		return fmt.Errorf("list deliveries: %w: %+v", err, list)
	}
	gone, err := c.DeleteWebhook(ctx, client.DeleteWebhookParams{ID: id})
	if _, ok := gone.(*client.DeleteWebhookNoContent); err != nil || !ok {
		return fmt.Errorf("delete webhook: %w: %+v", err, gone)
	}
	return nil
}
