import assert from "node:assert/strict";
import { test } from "node:test";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { client, logged, mark, providerKey, seen, user } from "./gateway.mjs";

const openai = client();

test("a chat completion answers the question and is recorded", async () => {
  const question = mark("wie geht's, 世界 🌍?");
  const { data, response } = await openai.chat.completions.create({ model: "sim-1", messages: user(question) }).withResponse();
  assert.equal(data.object, "chat.completion");
  assert.equal(data.model, "sim-1");
  assert.equal(data.choices.length, 1);
  assert.equal(data.choices[0].message.role, "assistant");
  assert.equal(data.choices[0].finish_reason, "stop");
  assert.ok(data.choices[0].message.content.startsWith(`echo: ${question}`), data.choices[0].message.content);
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);

  assert.equal(response.headers.get("x-gateway-provider"), "openai");
  assert.equal(response.headers.get("x-gateway-model"), "sim-1");
  const entry = await logged(response);
  assert.equal(entry.status, 200);
  assert.equal(entry.operation, "chat");
  assert.equal(entry.usage.prompt_tokens, data.usage.prompt_tokens);
  assert.equal(entry.usage.completion_tokens, data.usage.completion_tokens);

  const [request] = await seen(question);
  assert.equal(request.method, "POST");
  assert.equal(request.uri, "/v1/chat/completions");
  assert.equal(request.headers.authorization, `Bearer ${providerKey}`);
  assert.deepEqual(JSON.parse(request.body), { model: "sim-1", messages: user(question) });
  const gatewayOnly = Object.keys(request.headers).filter((name) => name.startsWith("x-gateway-"));
  assert.deepEqual(gatewayOnly, []);
});

test("parameters of today arrive as they were sent", async () => {
  const params = {
    model: "sim-1",
    messages: [
      { role: "developer", content: "be short" },
      { role: "user", content: [{ type: "text", text: mark("parts") }, { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] },
    ],
    max_completion_tokens: 12,
    reasoning_effort: "low",
    verbosity: "low",
    service_tier: "auto",
    store: false,
    metadata: { team: "tests" },
    prediction: { type: "content", content: "echo" },
    safety_identifier: "someone",
    prompt_cache_key: "tests",
    temperature: 0.5,
    stop: ["\n\n"],
    seed: 7,
    a_parameter_of_tomorrow: { deep: [1, 2.5, null] },
  };
  const data = await openai.chat.completions.create(params);
  assert.equal(data.choices[0].finish_reason, "length");
  assert.equal(data.usage.completion_tokens, 12);
  const [request] = await seen(params.messages[1].content[0].text);
  assert.deepEqual(JSON.parse(request.body), params);
});

test("n=2 gives two choices", async () => {
  const question = mark("twice");
  const data = await openai.chat.completions.create({ model: "sim-1", messages: user(question), n: 2 });
  assert.deepEqual(data.choices.map((choice) => choice.index), [0, 1]);
  assert.ok(data.choices[0].message.content.startsWith(`echo: ${question}`));
  assert.ok(data.choices[1].message.content.startsWith(`echo 1: ${question}`));
});

test("logprobs spell the answer", async () => {
  const data = await openai.chat.completions.create({
    model: "sim-1", messages: user(mark("likely")), logprobs: true, top_logprobs: 2,
  });
  const { message, logprobs } = data.choices[0];
  assert.equal(logprobs.content.map((token) => token.token).join(""), message.content);
  for (const token of logprobs.content) {
    assert.equal(token.top_logprobs.length, 2);
    assert.ok(token.logprob < 0);
    assert.equal(Buffer.from(token.bytes).toString(), token.token);
  }
});

test("parse reads an answer that follows a JSON schema", async () => {
  const Step = z.object({ explanation: z.string(), sure: z.boolean() });
  const Answer = z.object({ steps: z.array(Step), mood: z.enum(["calm", "hurried"]), count: z.number() });
  const question = mark("schema");
  const data = await openai.chat.completions.parse({
    model: "sim-1", messages: user(question), response_format: zodResponseFormat(Answer, "answer"),
  });
  assert.deepEqual(data.choices[0].message.parsed, {
    steps: [{ explanation: question, sure: true }], mood: "calm", count: 1,
  });
});

test("the legacy completions give text, and a stream the same text", async () => {
  const params = { model: "sim-1", prompt: mark("once upon"), max_tokens: 40, n: 2 };
  const data = await openai.completions.create(params);
  assert.equal(data.object, "text_completion");
  assert.equal(data.choices.length, 2);
  assert.ok(data.choices[0].text.includes(params.prompt), data.choices[0].text);

  const texts = ["", ""];
  for await (const chunk of await openai.completions.create({ ...params, stream: true })) {
    for (const choice of chunk.choices) texts[choice.index] += choice.text;
  }
  assert.deepEqual(texts, data.choices.map((choice) => choice.text));
});
