import assert from "node:assert/strict";
import { test } from "node:test";
import { Modelgate, ModelgateError, createHeaders } from "../../../clients/typescript/index.js";
import { gatewayKey, gatewayURL, mark, refused, seen, user } from "./gateway.mjs";

const own = (options) => new Modelgate({ baseURL: gatewayURL, apiKey: gatewayKey, ...options });

test("options in camelCase are the gateway's headers", () => {
  assert.deepEqual(
    createHeaders({
      apiKey: "k", provider: "@p", config: { retry: { attempts: 2 } }, metadata: { team: "a" }, traceId: "t", traceID: "u",
      requestTimeout: 5, cacheForceRefresh: true, cloudAAccessKeyId: "a", cloudCApiVersion: "v1", strictVendoraCompliance: false,
      authorization: "sk", forwardHeaders: ["X-My-Custom-Header"], xMyCustomHeader: "mine", virtualKey: undefined, customHost: null,
    }),
    {
      authorization: "Bearer sk", "x-gateway-api-key": "k", "x-gateway-provider": "@p", "x-gateway-config": '{"retry":{"attempts":2}}',
      "x-gateway-metadata": '{"team":"a"}', "x-gateway-trace-id": "u", "x-gateway-request-timeout": "5",
      "x-gateway-cache-force-refresh": "true", "x-gateway-cloud-a-access-key-id": "a", "x-gateway-cloud-c-api-version": "v1",
      "x-gateway-strict-vendora-compliance": "false", "X-My-Custom-Header": "mine", "x-gateway-forward-headers": "X-My-Custom-Header",
    },
  );
  assert.throws(() => createHeaders({ traceId: "a\nx-evil: 1" }), TypeError);
});

test("a config given to the client decides who is called", async () => {
  const question = mark("by config");
  const config = { strategy: { mode: "single" }, targets: [{ provider: "@sim", override_params: { temperature: 0.25 } }] };
  const answer = await own({ config }).chat.completions.create({ model: "sim-1", messages: user(question) });
  assert.ok(answer.choices[0].message.content.includes(question));
  const [request] = await seen(question);
  assert.equal(JSON.parse(request.body).temperature, 0.25);
});

test("a forwarded header keeps its spelling", async () => {
  const question = mark("forwarded");
  const client = own({ provider: "@sim" }).withOptions({ forwardHeaders: ["X-My-Custom-Header"], xMyCustomHeader: "mine" });
  await client.chat.completions.create({ model: "sim-1", messages: user(question) });
  const [request] = await seen(question);
  assert.equal(request.headers["x-my-custom-header"], "mine");
});

test("a stream comes chunk by chunk", async () => {
  const question = mark("streamed");
  let text = "";
  for await (const chunk of await own({ provider: "@sim" }).chat.completions.create({ model: "sim-1", stream: true, messages: user(question) })) {
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.ok(text.includes(question), text);
});

test("an error answer is raised with its status and body", async () => {
  const error = await refused(own({ provider: "@nobody" }).chat.completions.create({ model: "m", messages: user("x") }), ModelgateError);
  assert.equal(error.status, 404);
  assert.equal(error.body.error.code, "unknown_slug");
  assert.ok(error.headers.get("x-gateway-request-id"));
});
