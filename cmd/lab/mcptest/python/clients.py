"""Goes through an MCP server with the official Python SDK, as node/clients.mjs does with other clients.

    python3 clients.py URL EXPECTATIONS.json

What the server lists must be what the file of expectations names, and each of it is read,
called or fetched. An API key is taken from MCP_KEY.
"""

import asyncio
import json
import os
import sys
from importlib.metadata import version

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client

NOT_FOUND = -32002  # a resource that does not exist, in the revisions that the SDK speaks


class Walk:
    """One walk through a server; done and faults count its checks."""

    def __init__(self, session, expected):
        self.session = session
        self.expected = expected
        self.done = 0
        self.faults = 0

    def check(self, what, ok, got):
        self.done += 1
        if not ok:
            self.faults += 1
            print(f"python: {what}, but: {str(got)[:600]}", file=sys.stderr)

    def same_names(self, what, listed, wanted):
        self.check(f"{what} are {sorted(wanted)}", sorted(listed) == sorted(wanted), listed)

    async def refused(self, what, call):
        try:
            self.check(f"{what} is refused", False, await call)
        except McpError as e:
            self.check(f"{what} is refused with {NOT_FOUND}", e.error.code == NOT_FOUND, e)

    async def resources(self):
        wanted, templates = self.expected.get("resources", {}), self.expected.get("templates", {})
        listed = (await self.session.list_resources()).resources
        self.same_names("resources", [str(r.uri) for r in listed], wanted)
        listed = (await self.session.list_resource_templates()).resourceTemplates
        self.same_names("templates", [t.uriTemplate for t in listed], templates)
        for uri, want in [*wanted.items(), *((t["uri"], t) for t in templates.values())]:
            contents = (await self.session.read_resource(uri)).contents
            self.check(f"{uri} has one content", len(contents) == 1 and str(contents[0].uri) == uri, contents)
            self.check(f"{uri} is {want['mimeType']}", contents[0].mimeType == want["mimeType"], contents[0].mimeType)
            body = getattr(contents[0], "blob" if want.get("binary") else "text", None)
            self.check(f"{uri} contains {want['contains']}", body is not None and want["contains"] in body, contents)
        await self.refused("an unknown uri", self.session.read_resource("test://there/is/no/such/resource"))

    async def tools(self):
        wanted = self.expected.get("tools", {})
        listed = [t.name for t in (await self.session.list_tools()).tools]
        self.same_names("tools", listed, wanted)
        for name in filter(wanted.__contains__, listed):
            want = wanted[name]
            result = await self.session.call_tool(name, want.get("arguments", {}))
            failed = want.get("isError", False)
            self.check(f"{name} {'fails' if failed else 'succeeds'}", bool(result.isError) == failed, result)
            self.check(f"{name} says {want['contains']}", says(result.content, want["contains"]), result)

    async def prompts(self):
        wanted = self.expected.get("prompts", {})
        self.same_names("prompts", [p.name for p in (await self.session.list_prompts()).prompts], wanted)
        for name, want in wanted.items():
            messages = (await self.session.get_prompt(name, want.get("arguments", {}))).messages
            self.check(f"{name} says {want['contains']}", says(messages, want["contains"]), messages)


def says(contents, part):
    """Reports whether the JSON of contents has part in it."""
    items = [c.model_dump(mode="json", exclude_none=True) for c in contents]
    return part in json.dumps(items, ensure_ascii=False, separators=(",", ":"))


async def main(url, file):
    with open(file, encoding="utf-8") as f:
        expected = json.load(f)
    key = os.environ.get("MCP_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http, streamable_http_client(url, http_client=http) as (read, write, _):
        async with ClientSession(read, write) as session:
            spoken = (await session.initialize()).protocolVersion
            walk = Walk(session, expected)
            for part in (walk.resources, walk.tools, walk.prompts):
                await part()
    print(f"python {version('mcp')} ({spoken}): {walk.done - walk.faults} of {walk.done} checks passed")
    return 1 if walk.faults else 0


sys.exit(asyncio.run(main(*sys.argv[1:])))
