// The TypeScript SDK, version 1: it initializes a session.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { calls } from './sdk.mjs';

export async function connect(url, headers) {
  const client = new Client({ name: 'waybill-sdk-v1', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  return calls(client, transport.protocolVersion, -32002);
}
