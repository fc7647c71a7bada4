// What both versions of the TypeScript SDK have in common. notFound is the code of the error
// for a resource that does not exist, which changed with the protocol's revision of 2026.
export const calls = (client, version, notFound) => ({
  version,
  notFound,
  resources: async () => (await client.listResources()).resources,
  templates: async () => (await client.listResourceTemplates()).resourceTemplates,
  tools: async () => (await client.listTools()).tools,
  prompts: async () => (await client.listPrompts()).prompts,
  read: (uri) => client.readResource({ uri }),
  call: (name, args) => client.callTool({ name, arguments: args }),
  prompt: (name, args) => client.getPrompt({ name, arguments: args }),
  close: () => client.close(),
});
