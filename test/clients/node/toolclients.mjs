// The official TypeScript clients, of the older package and of the newer ones, use tool servers
// of both eras through the gateway.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as newer from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const address = new URL(process.env.TOOLS_URL);
const requestInit = { headers: { authorization: `Bearer ${process.env.GATEWAY_KEY}` } };
const identity = { name: "test", version: "1" };
const capabilities = { elicitation: { form: {} } };
const red = async () => ({ action: "accept", content: { color: "red" } });

// use does what people do with a client of either package.
async function use(client) {
  assert.match(client.getInstructions(), /Greet people\./);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), ["new__choose", "new__greet", "old__choose", "old__greet"]);
  for (const name of ["new__greet", "old__greet"]) {
    const result = await client.callTool({ name, arguments: { name: "Ada" } });
    assert.equal(result.content[0].text, "Hello, Ada");
  }
  const chosen = await client.callTool({ name: "old__choose", arguments: {} });
  assert.equal(chosen.content[0].text, "accept red");
  const { resources } = await client.listResources();
  assert.equal(resources.length, 2);
  for (const { uri } of resources) {
    const { contents } = await client.readResource({ uri });
    assert.equal(contents[0].text, "a note");
  }
  const { messages } = await client.getPrompt({ name: "old__poem" });
  assert.equal(messages[0].content.text, "Write a poem.");
  await assert.rejects(client.callTool({ name: "old__nothing", arguments: {} }), /unknown tool/);
  await client.close();
}

test("the older package", async () => {
  const client = new Client(identity, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, red);
  await client.connect(new StreamableHTTPClientTransport(address, { requestInit }));
  await use(client);
});

for (const [mode, era] of [["legacy", "legacy"], ["auto", "modern"]]) {
  test(`the newer package, ${mode}`, async () => {
    const client = new newer.Client(identity, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler("elicitation/create", red);
    await client.connect(new newer.StreamableHTTPClientTransport(address, { requestInit }));
    assert.equal(client.getProtocolEra(), era);
    await use(client);
  });
}
