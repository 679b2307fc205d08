// The client libraries of single vendors, at the gateway as their base address:
// a complete response, a stream and a tool loop each. Those that speak chat reach
// every provider, the others their own.
import { Mistral } from "@mistralai/mistralai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { CohereClient, CohereClientV2 } from "cohere-ai";
import Groq from "groq-sdk";
import { Ollama } from "ollama";
import { rootURL } from "./dialects.mjs";
import { gatewayKey, mark, seen, user } from "./gateway.mjs";

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", description: "Tells the weather.", parameters } }];
const says = (question, text) => assert.ok(text.includes(`echo: ${question}`), text);

const groq = new Groq({ apiKey: gatewayKey, baseURL: rootURL, maxRetries: 0 });
for (const slug of ["chat", "ant", "gem"]) {
  const model = `@${slug}/sim-1`;

  test(`Groq's client at @${slug}`, async () => {
    const question = mark("hello");
    const messages = user(question);
    says(question, (await groq.chat.completions.create({ model, messages })).choices[0].message.content);
    let text = "";
    for await (const chunk of await groq.chat.completions.create({ model, messages, stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
    says(question, text);
    const { message } = (await groq.chat.completions.create({ model, messages, tools })).choices[0];
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: question });
    messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "sunny" });
    says(question, (await groq.chat.completions.create({ model, messages, tools })).choices[0].message.content);
  });

  test(`Mistral's client at @${slug}`, async () => {
    const mistral = new Mistral({ apiKey: gatewayKey, serverURL: rootURL });
    const question = mark("hello");
    const messages = user(question);
    says(question, (await mistral.chat.complete({ model, messages })).choices[0].message.content);
    let text = "";
    for await (const { data } of await mistral.chat.stream({ model, messages })) text += data.choices[0]?.delta?.content ?? "";
    says(question, text);
    const { message } = (await mistral.chat.complete({ model, messages, tools })).choices[0];
    const [call] = message.toolCalls;
    const args = call.function.arguments;
    assert.deepEqual(typeof args === "string" ? JSON.parse(args) : args, { city: question });
    messages.push(message, { role: "tool", toolCallId: call.id, name: "weather", content: "sunny" });
    says(question, (await mistral.chat.complete({ model, messages, tools })).choices[0].message.content);
  });
}

test("Groq's client lists and shows models", async () => {
  assert.ok((await groq.models.list()).data.some((each) => each.id === "@chat/sim-1"));
  assert.equal((await groq.models.retrieve("@chat/sim-1")).id, "@chat/sim-1");
});

test("Cohere's client at Cohere", async () => {
  const cohere = new CohereClientV2({ token: gatewayKey, environment: rootURL, maxRetries: 0 });
  for (const model of ["@coh/sim-1", "sim-1"]) {
    const question = mark("hello");
    const messages = user(question);
    says(question, (await cohere.chat({ model, messages })).message.content[0].text);
    let text = "";
    for await (const event of await cohere.chatStream({ model, messages })) {
      if (event.type === "content-delta") text += event.delta.message.content.text ?? "";
    }
    says(question, text);
    const { message } = await cohere.chat({ model, messages, tools });
    assert.deepEqual(JSON.parse(message.toolCalls[0].function.arguments), { city: question });
    messages.push(message, { role: "tool", toolCallId: message.toolCalls[0].id, content: "sunny" });
    says(question, (await cohere.chat({ model, messages, tools })).message.content[0].text);
  }
});

// arrives asserts what path a call reaches. The simulator echoes requests of paths
// that it does not know, which the libraries may not be able to read.
async function arrives(path, call) {
  const text = mark("name").replace(" ", "-");
  await call(text).catch((error) => assert.ok(!`${error}`.includes("gateway"), `${error}`));
  assert.deepEqual((await seen(text)).map((each) => each.uri), [path.replace("NAME", text)]);
}

test("Cohere's client on paths of version 1", async () => {
  const cohere = new CohereClient({ token: gatewayKey, environment: rootURL, maxRetries: 0 });
  const options = { maxRetries: 0 };
  await arrives("/v1/chat", (message) => cohere.chat({ model: "@coh/sim-1", message }, options));
  await arrives("/v1/chat", (message) => cohere.chat({ message }, options));
  await arrives("/v1/tokenize", (text) => cohere.tokenize({ model: "sim-1", text }, options));
  await arrives("/v1/connectors", (name) => cohere.connectors.create({ name, url: "https://example.com" }, options));
  await arrives("/v1/models/NAME", (name) => cohere.models.get(`@coh/${name}`, options));
  const { results } = await cohere.rerank({ model: "@coh/sim-1", query: "a", documents: ["a", "b", "c"], topN: 2 }, options);
  assert.equal(results.length, 2);
});

test("Ollama's client changes models", async () => {
  const ollama = new Ollama({ host: rootURL, headers: { authorization: `Bearer ${gatewayKey}` } });
  await arrives("/api/pull", (model) => ollama.pull({ model: `@oll/${model}` }));
  await arrives("/api/push", (model) => ollama.push({ model }));
  await arrives("/api/create", (model) => ollama.create({ model, from: "sim-1" }));
  await arrives("/api/copy", (source) => ollama.copy({ source, destination: "b" }));
  await arrives("/api/delete", (model) => ollama.delete({ model }));
});

test("Ollama's client at Ollama", async () => {
  const ollama = new Ollama({ host: rootURL, headers: { authorization: `Bearer ${gatewayKey}` } });
  for (const model of ["@oll/sim-1", "sim-1"]) {
    const question = mark("hello");
    const messages = user(question);
    says(question, (await ollama.chat({ model, messages })).message.content);
    let text = "";
    for await (const part of await ollama.chat({ model, messages, stream: true })) text += part.message.content;
    says(question, text);
    const { message } = await ollama.chat({ model, messages, tools });
    assert.deepEqual(message.tool_calls[0].function.arguments, { city: question });
    messages.push(message, { role: "tool", tool_name: "weather", content: "sunny" });
    says(question, (await ollama.chat({ model, messages, tools })).message.content);
  }
});
