// The TypeScript SDK, version 2: it asks first whether the server knows the stateless
// protocol, and uses that.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { calls } from './sdk.mjs';

export async function connect(url, headers) {
  const client = new Client({ name: 'waybill-sdk-v2', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const version = client.getNegotiatedProtocolVersion();
  if (version !== '2026-07-28') throw new Error(`the client settled for ${version}`);
  return calls(client, version, -32602);
}
