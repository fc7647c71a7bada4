//go:build generated

// Command oapi makes five calls with a client that oapi-codegen has generated.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"waybill.dev/clienttest/oapi/client"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server, key, receiver string) error {
	c, err := client.NewClientWithResponses(server, client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	if err != nil {
		return err
	}
	made, err := c.RegisterWebhookWithResponse(ctx, nil, client.WebhookCreateBody{Url: &receiver, Events: client.WebhookEvents{client.WebhookEventTypeShipmentCreated}})
	if err != nil || made.JSON201 == nil {
		return fmt.Errorf("register webhook: %w: %s", err, made.Body)
	}
	read, err := c.GetWebhookWithResponse(ctx, *made.JSON201.Id, nil)
	if err != nil || read.JSON200 == nil || !read.JSON200.Active {
		return fmt.Errorf("get webhook: %w: %s", err, read.Body)
	}
	var event client.PublishedEvent
	if err := event.FromPublishedShipmentCreated(client.PublishedShipmentCreated{Data: client.ShipmentCreatedData{ShipmentId: "shp_oapi"}}); err != nil {
		return err
	}
	var body client.PublishBody
	if err := body.FromPublishedEvent(event); err != nil {
		return err
	}
	published, err := c.PublishEventsWithResponse(ctx, nil, body)
	if err != nil || published.JSON202 == nil || len(published.JSON202.Events) != 1 {
		return fmt.Errorf("publish event: %w: %s", err, published.Body)
	}
	list, err := c.ListDeliveriesWithResponse(ctx, &client.ListDeliveriesParams{WebhookId: made.JSON201.Id})
	if err != nil || list.JSON200 == nil {
		return fmt.Errorf("list deliveries: %w: %s", err, list.Body)
	}
	gone, err := c.DeleteWebhookWithResponse(ctx, *made.JSON201.Id)
	if err != nil || gone.StatusCode() != http.StatusNoContent {
		return fmt.Errorf("delete webhook: %w: %s", err, gone.Body)
	}
	return nil
}
