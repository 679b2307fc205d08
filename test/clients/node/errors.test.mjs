import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import {
  APIConnectionTimeoutError, APIError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError, RateLimitError,
} from "openai";
import { client, gatewayKey, logged, mark, providerKey, providerURL, refused, seen, unseen, user } from "./gateway.mjs";

const openai = client();

// model returns a model that no other case asks for, with a fault of the simulator.
const model = (fault) => `sim-${randomUUID()}+${fault}`;

const ask = (params, options) => openai.chat.completions.create({ model: "sim-1", messages: user(mark("error")), ...params }, options);

test("a wrong key is an AuthenticationError and goes nowhere", async () => {
  const question = mark("wrong key");
  for (const wrong of [{ apiKey: `${gatewayKey}x` }, { defaultHeaders: { "x-gateway-api-key": "mg-wrong" } }]) {
    const error = await refused(
      client(wrong).chat.completions.create({ model: "sim-1", messages: user(question) }), AuthenticationError);
    assert.equal(error.status, 401);
    assert.equal(error.error.source, "gateway");
    assert.match(error.message, /gateway key/);
  }
  await unseen(question);
});

test("a wrong credential for the provider is the provider's AuthenticationError", async () => {
  const error = await refused(
    client({ apiKey: "sk-wrong", defaultHeaders: brought() }).chat.completions.create({ model: "sim-1", messages: user(mark("credential")) }),
    AuthenticationError);
  assert.equal(error.code, "invalid_api_key");
  assert.equal(error.error.source, "provider");
  assert.equal(error.headers.get("x-gateway-provider"), "openai");
});

const brought = () => ({
  "x-gateway-api-key": gatewayKey, "x-gateway-provider": "openai", "x-gateway-custom-host": providerURL,
});

test("a parameter out of range is a BadRequestError that names it", async () => {
  for (const [params, param] of [
    [{ temperature: 9 }, "temperature"],
    [{ messages: [] }, "messages"],
    [{ n: 0 }, "n"],
    [{ top_logprobs: 21, logprobs: true }, "top_logprobs"],
    [{ stream: "yes" }, "stream"],
  ]) {
    const question = mark("range");
    const error = await refused(ask({ ...params, user: question }), BadRequestError);
    assert.equal(error.status, 400);
    assert.equal(error.param, param);
    assert.equal(error.type, "invalid_request_error");
    assert.ok(error.message.includes(param), error.message);
    await unseen(question);
  }
});

test("the provider's refusals keep their status, code and parameter", async () => {
  const long = await refused(ask({ model: model("context-length") }), BadRequestError);
  assert.equal(long.code, "context_length_exceeded");
  assert.equal(long.param, "messages");
  assert.equal(long.error.source, "provider");
  const absent = await refused(ask({ model: model("model-not-found") }), NotFoundError);
  assert.equal(absent.code, "model_not_found");
  const broken = await refused(ask({ model: model("status=500") }), InternalServerError);
  assert.equal(broken.status, 500);
  const streamed = await refused(ask({ model: model("status=503"), stream: true }), InternalServerError);
  assert.equal(streamed.status, 503);
});

test("a rate limit is a RateLimitError with the provider's delay", async () => {
  const error = await refused(ask({ model: model("status=429+retry-after=7+retry-after-ms=7000") }), RateLimitError);
  assert.equal(error.status, 429);
  assert.equal(error.code, "rate_limit_exceeded");
  assert.equal(error.headers.get("retry-after"), "7");
  assert.equal(error.headers.get("retry-after-ms"), "7000");
});

// Left to itself the client waits half a second at most.
test("the client's own retry waits as the provider asks and gets past a rate limit", async () => {
  for (const stream of [false, true]) {
    const question = mark("again");
    const began = performance.now();
    const answer = await ask({ model: model("status=429+retry-after-ms=900+times=1"), messages: user(question), stream }, { maxRetries: 2 });
    const took = performance.now() - began;
    let text = stream ? "" : answer.choices[0].message.content;
    if (stream) for await (const chunk of answer) text += chunk.choices[0].delta.content ?? "";
    assert.ok(text.startsWith(`echo: ${question}`), text);
    assert.equal((await seen(question)).length, 2);
    assert.ok(took >= 900, `the retry came after ${took} ms, sooner than the provider asked for`);
  }
});

test("the client's own retry gets past a lost connection", async () => {
  const question = mark("lost");
  const answer = await ask({ model: model("reset+times=1"), messages: user(question) }, { maxRetries: 1 });
  assert.ok(answer.choices[0].message.content.startsWith(`echo: ${question}`));
  assert.equal((await seen(question)).length, 2);
});

test("a connection that is lost before the answer is a 502 of the gateway", async () => {
  const error = await refused(ask({ model: model("reset") }), InternalServerError);
  assert.equal(error.status, 502);
  assert.equal(error.error.source, "gateway");
});

for (const [what, fault] of [["that is cut off", "cut=100"], ["that is a page of HTML", "html"], ["that is shorter than it says", "length=+10"]]) {
  test(`an answer ${what} is an error`, async () => {
    const error = await refused(ask({ model: model(fault) }), APIError);
    assert.ok(error.status === undefined || error.status >= 500, `status ${error.status}`);
  });
}

test("the client's timeout ends the request at the provider", async () => {
  const question = mark("too slow");
  await refused(ask({ model: model("hang"), messages: user(question) }, { timeout: 500 }), APIConnectionTimeoutError);
  const [request] = await seen(question);
  assert.equal(request.canceled, true);
});

test("the gateway's timeout is a 408", async () => {
  const question = mark("limit");
  const error = await refused(
    ask({ model: model("hang"), messages: user(question) }, { headers: { "x-gateway-request-timeout": "500" } }), APIError);
  assert.equal(error.status, 408);
  assert.equal(error.error.source, "gateway");
  const [request] = await seen(question);
  assert.equal(request.canceled, true);
});

test("every refusal is recorded", async () => {
  const error = await refused(ask({ temperature: -1 }), BadRequestError);
  const entry = await logged(error);
  assert.equal(entry.status, 400);
  assert.equal(entry.error.source, "gateway");
  assert.match(entry.error.message, /temperature/);
});

test("no error shows a credential", async () => {
  const error = await refused(ask({ model: model("status=401") }), AuthenticationError);
  const shown = JSON.stringify([error.message, error.error, [...error.headers]]);
  assert.ok(!shown.includes(providerKey) && !shown.includes(gatewayKey), shown);
});
