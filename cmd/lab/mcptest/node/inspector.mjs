// The Inspector's command line: one process a call.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const packageFile = createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json');
const program = join(dirname(packageFile), 'clients', 'launcher', 'build', 'index.js');
const pairs = (flag, args) => Object.entries(args).flatMap(([name, value]) => [flag, `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`]);

export async function connect(url, headers) {
  const home = await mkdtemp(join(tmpdir(), 'inspector-')); // it keeps a catalogue at home
  const env = { ...process.env, HOME: home, MCP_CATALOG_PATH: join(home, 'mcp.json') };
  async function run(method, ...more) {
    const header = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
    const args = [program, '--cli', url, '--transport', 'http', ...header, '--method', method, ...more];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env, maxBuffer: 1 << 26 }).catch((error) => {
      // A tool that answers that it failed is an exit status too, and its result is printed.
      if (method === 'tools/call' && error.stdout) return error;
      throw new Error(error.stderr || error.message);
    });
    return JSON.parse(stdout);
  }
  return {
    notFound: undefined, // it prints the message of an error, but not its code
    version: createRequire(import.meta.url)(packageFile).version,
    resources: async () => (await run('resources/list')).resources,
    templates: async () => (await run('resources/templates/list')).resourceTemplates,
    tools: async () => (await run('tools/list')).tools,
    prompts: async () => (await run('prompts/list')).prompts,
    read: (uri) => run('resources/read', '--uri', uri),
    call: (name, args) => run('tools/call', '--tool-name', name, ...pairs('--tool-arg', args)),
    prompt: (name, args) => run('prompts/get', '--prompt-name', name, ...pairs('--prompt-args', args)),
    close: () => rm(home, { recursive: true, force: true }),
  };
}
