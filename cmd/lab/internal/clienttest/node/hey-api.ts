// Five calls with the client that @hey-api/openapi-ts has generated.
import { client } from "./hey-api/client.gen.js";
import { deleteWebhook, getWebhook, listDeliveries, publishEvents, registerWebhook } from "./hey-api/sdk.gen.js";

declare const process: { argv: string[] };

const [, , baseUrl, key, receiver] = process.argv;
client.setConfig({ baseUrl, auth: key, throwOnError: true });

const throwOnError = true;
const made = (await registerWebhook({ throwOnError, body: { url: receiver, events: ["shipment.created"] } })).data;
const path = { id: made.id };
const read = (await getWebhook({ throwOnError, path })).data;
if (!read.active) throw new Error("the webhook is not active");
const published = (await publishEvents({ throwOnError, body: { type: "shipment.created", data: { shipmentId: "shp_hey_api" } } })).data;
if (published.events.length !== 1) throw new Error(JSON.stringify(published));
await listDeliveries({ throwOnError, query: { webhookId: made.id } });
await deleteWebhook({ throwOnError, path });
