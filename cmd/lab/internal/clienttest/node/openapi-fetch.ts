// Five calls with the types that openapi-typescript has generated.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };

const [, , baseUrl, key, receiver] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

function taken<T>(what: string, { data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(`${what}: ${JSON.stringify(error)}`);
  return data;
}

const made = taken("register webhook", await client.POST("/v1/webhooks", { body: { url: receiver, events: ["shipment.created"] } }));
const path = { id: made.id };
const read = taken("get webhook", await client.GET("/v1/webhooks/{id}", { params: { path } }));
if (!read.active) throw new Error("the webhook is not active");
const published = taken("publish event", await client.POST("/v1/events", { body: { type: "shipment.created", data: { shipmentId: "shp_openapi_fetch" } } }));
if (published.events.length !== 1) throw new Error(JSON.stringify(published));
taken("list deliveries", await client.GET("/v1/deliveries", { params: { query: { webhookId: made.id } } }));
const gone = await client.DELETE("/v1/webhooks/{id}", { params: { path } });
if (gone.response.status !== 204) throw new Error(`delete webhook: ${JSON.stringify(gone.error)}`);
