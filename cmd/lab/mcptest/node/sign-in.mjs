// Signs in at the issuer of an MCP server as its user's browser does, and prints what the tool who_am_i says.
//
//   node sign-in.mjs sdk-v1|sdk-v2 URL CALLBACK
const [kind, url, callback] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await {
  'sdk-v1': async () => ({
    ...(await import('@modelcontextprotocol/sdk/client/index.js')),
    ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
  }),
  'sdk-v2': () => import('@modelcontextprotocol/client'),
}[kind]();

// What the client keeps between its steps.
const kept = {};
let back;
const authProvider = {
  redirectUrl: callback,
  clientMetadata: { client_name: 'waybill-test', redirect_uris: [callback], token_endpoint_auth_method: 'none' },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (discovery) => { kept.discovery = discovery; },
  redirectToAuthorization: async (to) => {
    const answer = await fetch(to, { redirect: 'manual' });
    back = new URL(answer.headers.get('location')).searchParams;
  },
};

async function connect() {
  const client = new Client({ name: 'waybill-test', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!back) throw error;
    await transport.finishAuth(kind === 'sdk-v1' ? back.get('code') : back);
    back = undefined;
    return connect();
  }
  return client;
}

const client = await connect();
const { content } = await client.callTool({ name: 'who_am_i', arguments: {} });
console.log(content.map((part) => part.text).join('\n'));
await client.close();
