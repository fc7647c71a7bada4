// Goes through an MCP server with a client that others made: what the server lists must be
// what the file of expectations names, and each of it is read, called or fetched.
//
//   node clients.mjs sdk-v1|sdk-v2|inspector URL EXPECTATIONS.json
//
// An API key is taken from MCP_KEY.
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';

const [kind, url, file] = process.argv.slice(2);
const expected = JSON.parse(await readFile(file, 'utf8'));
const { connect } = await import(`./${kind}.mjs`);
const headers = process.env.MCP_KEY ? { Authorization: `Bearer ${process.env.MCP_KEY}` } : {};
const client = await connect(url, headers);
let faults = 0;
let done = 0;

function check(what, ok, got) {
  done++;
  if (ok) return;
  faults++;
  console.error(`${kind}: ${what}, but: ${JSON.stringify(got)?.slice(0, 600)}`);
}

// What is listed is what is expected, in any order.
function sameNames(what, listed, wanted) {
  const names = Object.keys(wanted).sort();
  check(`${what} are ${names}`, isDeepStrictEqual([...listed].sort(), names), listed);
}

// Binary content is compared as text too: what it contains is then base64.
const contains = (value, part) => (typeof value === 'string' ? value : JSON.stringify(value)).includes(part);

async function refused(what, call) {
  try {
    check(`${what} is refused`, false, await call());
  } catch (error) {
    check(`${what} is refused with ${client.notFound}`, error.code === client.notFound, String(error));
  }
}

async function resources() {
  const { resources: wanted = {}, templates = {} } = expected;
  const listed = await client.resources();
  sameNames('resources', listed.map((r) => r.uri), wanted);
  sameNames('templates', (await client.templates()).map((t) => t.uriTemplate), templates);
  const reads = [...Object.entries(wanted), ...Object.values(templates).map((t) => [t.uri, t])];
  for (const [uri, want] of reads) {
    const { contents } = await client.read(uri);
    check(`${uri} has one content`, contents.length === 1 && contents[0].uri === uri, contents);
    check(`${uri} is ${want.mimeType}`, contents[0].mimeType === want.mimeType, contents[0].mimeType);
    const body = want.binary ? contents[0].blob : contents[0].text;
    check(`${uri} contains ${want.contains}`, typeof body === 'string' && contains(body, want.contains), contents);
  }
  await refused('an unknown uri', () => client.read('test://there/is/no/such/resource'));
}

async function tools() {
  const { tools: wanted = {} } = expected;
  const listed = (await client.tools()).map((t) => t.name);
  sameNames('tools', listed, wanted);
  for (const name of listed.filter((n) => n in wanted)) {
    const want = wanted[name];
    const result = await client.call(name, want.arguments ?? {});
    check(`${name} ${want.isError ? 'fails' : 'succeeds'}`, (result.isError ?? false) === (want.isError ?? false), result);
    check(`${name} says ${want.contains}`, contains(result.content, want.contains), result);
  }
}

async function prompts() {
  const { prompts: wanted = {} } = expected;
  sameNames('prompts', (await client.prompts()).map((p) => p.name), wanted);
  for (const [name, want] of Object.entries(wanted)) {
    const { messages } = await client.prompt(name, want.arguments ?? {});
    check(`${name} says ${want.contains}`, messages.length > 0 && contains(messages, want.contains), messages);
  }
}

try {
  for (const part of [resources, tools, prompts]) await part();
} finally {
  await client.close();
}
console.log(`${kind} (${client.version}): ${done - faults} of ${done} checks passed`);
process.exit(faults === 0 ? 0 : 1);
