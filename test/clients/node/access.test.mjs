import assert from "node:assert/strict";
import { test } from "node:test";
import { randomUUID } from "node:crypto";
import OpenAI, { APIError } from "openai";
import { client, gatewayKey, gatewayURL, logged, mark, providerKey, providerURL, refused, seen, unseen, user } from "./gateway.mjs";

// answered asks a question in one way of authentication and returns what came
// back, what the provider got and what was recorded.
async function answered(openai, model, options) {
  const question = mark("who am I");
  const { data, response } = await openai.chat.completions.create({ model, messages: user(question) }, options).withResponse();
  assert.ok(data.choices[0].message.content.startsWith(`echo: ${question}`), data.choices[0].message.content);
  return { data, response, question, entry: await logged(response) };
}

// arrived checks what the provider got: its credential, and nothing of the
// gateway's.
async function arrived(question, model) {
  const [request] = await seen(question);
  assert.equal(request.headers.authorization, `Bearer ${providerKey}`);
  assert.equal(JSON.parse(request.body).model, model);
  assert.ok(!JSON.stringify(request).includes(gatewayKey), "the gateway key has come to the provider");
}

test("a provider's name, a custom host and the provider's own key", async () => {
  const openai = new OpenAI({
    baseURL: gatewayURL, apiKey: providerKey, maxRetries: 0,
    defaultHeaders: { "x-gateway-api-key": gatewayKey, "x-gateway-provider": "openai", "x-gateway-custom-host": providerURL },
  });
  const { question, entry } = await answered(openai, "sim-1");
  await arrived(question, "sim-1");
  assert.equal(entry.provider, "openai");
  assert.equal(entry.provider_slug, null);
});

test("a managed provider, and whatever key the client sends", async () => {
  const openai = new OpenAI({
    baseURL: gatewayURL, apiKey: "sk-nobody-reads-this", maxRetries: 0,
    defaultHeaders: { "x-gateway-api-key": gatewayKey, "x-gateway-provider": "@sim" },
  });
  const { question, entry } = await answered(openai, "sim-1");
  await arrived(question, "sim-1");
  assert.equal(entry.provider_slug, "sim");
});

test("the legacy virtual key", async () => {
  const openai = client({ defaultHeaders: { "x-gateway-provider": null, "x-gateway-virtual-key": "sim" } });
  const { question, entry } = await answered(openai, "sim-1");
  await arrived(question, "sim-1");
  assert.equal(entry.provider_slug, "sim");
});

test("no more than a base URL and a key, the provider in the model's name", async () => {
  const openai = new OpenAI({ baseURL: gatewayURL, apiKey: gatewayKey, maxRetries: 0 });
  const { data, question, entry } = await answered(openai, "@sim/sim-1");
  await arrived(question, "sim-1");
  assert.equal(data.model, "sim-1");
  assert.equal(entry.provider_slug, "sim");
});

test("a config in a header", async () => {
  const config = { provider: "@sim", override_params: { max_tokens: 20 }, retry: { attempts: 2 } };
  const openai = client({ defaultHeaders: { "x-gateway-provider": null, "x-gateway-config": JSON.stringify(config) } });
  const plain = await answered(openai, "sim-1");
  await arrived(plain.question, "sim-1");
  assert.equal(plain.data.usage.completion_tokens, 20);

  const { question, response, entry } = await answered(openai, `sim-${randomUUID()}+status=429+retry-after-ms=5+times=1`);
  assert.equal((await seen(question)).length, 2);
  assert.equal(response.headers.get("x-gateway-retry-attempt-count"), "1");
  assert.equal(entry.attempts.length, 2);
});

test("a provider of its own process", async () => {
  const openai = client({ defaultHeaders: { "x-gateway-provider": "@alone" } });
  const { question, entry } = await answered(openai, "sim-1");
  await unseen(question);
  assert.equal(entry.provider_slug, "alone");
});

test("headers of a single request: trace and metadata", async () => {
  const trace = `trace-${randomUUID()}`;
  const { response, entry } = await answered(client(), "sim-1", {
    headers: { "x-gateway-trace-id": trace, "x-gateway-metadata": JSON.stringify({ _user: "ann", team: "tests" }) },
  });
  assert.equal(response.headers.get("x-gateway-trace-id"), trace);
  assert.equal(entry.trace_id, trace);
  assert.deepEqual(entry.metadata, { _user: "ann", team: "tests" });
  assert.match(entry.user_agent, /OpenAI/);
});

for (const [what, headers, says] of [
  ["a private address", { "x-gateway-provider": "openai", "x-gateway-custom-host": "http://10.1.2.3/v1" }, /10\.1\.2\.3|private|trusted/],
  ["an unknown provider", { "x-gateway-provider": "nobody" }, /nobody/],
  ["an unknown managed provider", { "x-gateway-provider": "@nobody" }, /nobody/],
  ["no provider", { "x-gateway-provider": null }, /provider/],
  ["a config that is not one", { "x-gateway-config": "{" }, /config/],
]) {
  test(`${what} is refused and nothing is sent`, async () => {
    const question = mark("refuse");
    const openai = client({ apiKey: providerKey, defaultHeaders: { "x-gateway-api-key": gatewayKey, ...headers } });
    const error = await refused(openai.chat.completions.create({ model: "sim-1", messages: user(question) }), APIError);
    assert.ok(error.status >= 400 && error.status < 500, `status ${error.status}`);
    assert.match(error.message, says);
    assert.ok(!error.message.includes(providerKey));
    await unseen(question);
  });
}

test("a gateway key alone is no credential for a provider", async () => {
  const question = mark("no credential");
  const openai = client({ defaultHeaders: { "x-gateway-provider": "openai", "x-gateway-custom-host": providerURL } });
  const error = await refused(openai.chat.completions.create({ model: "sim-1", messages: user(question) }), APIError);
  assert.ok(error.status === 400 || error.status === 401, `status ${error.status}`);
  await unseen(question);
  await unseen(gatewayKey);
});
