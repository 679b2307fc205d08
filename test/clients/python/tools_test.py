"""The official Python client, and that of fastmcp, use tool servers of both eras through the gateway."""

import asyncio
import os
import unittest

import fastmcp
import httpx2
import mcp
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.streamable_http import streamable_http_client

ADDRESS = os.environ["TOOLS_URL"]
HEADERS = {"Authorization": "Bearer " + os.environ["GATEWAY_KEY"]}
NAMES = ["new__choose", "new__greet", "old__choose", "old__greet"]


class Official(unittest.TestCase):
    """The client of mcp, in the modes that it has."""

    def use(self, steps, mode, **options):
        async def run():
            async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
                async with mcp.Client(streamable_http_client(ADDRESS, http_client=http), mode=mode, **options) as client:
                    await steps(client)

        asyncio.run(run())

    def calls(self, mode):
        progress = []

        async def report(done, total, message):
            progress.append(message)

        async def choose(context, params):
            return mcp.types.ElicitResult(action="accept", content={"color": "red"})

        async def steps(client):
            self.assertEqual(client.protocol_version, "2026-07-28" if mode == "auto" else "2025-11-25")
            self.assertIn("Greet people.", client.instructions)
            tools = (await client.list_tools()).tools
            self.assertEqual([tool.name for tool in tools], NAMES)
            for name in ("new__greet", "old__greet"):
                result = await client.call_tool(name, {"name": "Ada"}, progress_callback=report)
                self.assertFalse(result.is_error)
                self.assertEqual(result.content[0].text, "Hello, Ada")
            result = await client.call_tool("old__choose", {})
            self.assertEqual(result.content[0].text, "accept red")
            for resource in (await client.list_resources()).resources:
                read = await client.read_resource(resource.uri)
                self.assertEqual(read.contents[0].text, "a note")
            prompt = await client.get_prompt("new__poem")
            self.assertEqual(prompt.messages[0].content.text, "Write a poem.")
            with self.assertRaises(mcp.MCPError) as refused:
                await client.call_tool("old__nothing", {})
            self.assertIn("unknown tool", str(refused.exception))

        self.use(steps, mode, elicitation_callback=choose)
        self.assertEqual(progress, ["half", "half"])

    def test_modern(self):
        self.calls("auto")

    def test_legacy(self):
        self.calls("legacy")


class Fast(unittest.TestCase):
    """The client of fastmcp."""

    def calls(self, mode):
        async def run():
            async with fastmcp.Client(StreamableHttpTransport(ADDRESS, headers=HEADERS), mode=mode) as client:
                tools = await client.list_tools()
                self.assertEqual([tool.name for tool in tools], NAMES)
                for name in ("new__greet", "old__greet"):
                    result = await client.call_tool(name, {"name": "Ada"})
                    self.assertEqual(result.content[0].text, "Hello, Ada")
                with self.assertRaises(Exception) as refused:
                    await client.call_tool("new__nothing", {})
                self.assertIn("unknown tool", str(refused.exception))

        asyncio.run(run())

    def test_auto(self):
        self.calls("auto")

    def test_legacy(self):
        self.calls("legacy")


if __name__ == "__main__":
    unittest.main()
