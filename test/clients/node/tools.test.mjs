import assert from "node:assert/strict";
import { test } from "node:test";
import { client, logged, mark, seen, user } from "./gateway.mjs";

const openai = client();

const tool = (name, properties) => ({
  type: "function",
  function: { name, description: `Asks for the ${name}.`, parameters: { type: "object", properties, required: Object.keys(properties), additionalProperties: false } },
});
const weather = tool("weather", { city: { type: "string" }, unit: { type: "string", enum: ["celsius", "kelvin"] } });
const clock = tool("clock", { zone: { type: "string" } });
const tools = [weather, clock];

// called returns the calls of a message without their ids.
const called = (message) => message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);

test("tools are called in parallel, with arguments that follow their schema", async () => {
  const question = mark("Ærø \"quoted\"\n");
  const { data, response } = await openai.chat.completions.create({ model: "sim-1", messages: user(question), tools }).withResponse();
  const [choice] = data.choices;
  assert.equal(choice.finish_reason, "tool_calls");
  assert.equal(choice.message.content, null);
  assert.deepEqual(called(choice.message), [["weather", { city: question, unit: "celsius" }], ["clock", { zone: question }]]);
  assert.equal(new Set(choice.message.tool_calls.map((call) => call.id)).size, 2);
  assert.equal((await logged(response)).finish_reason, "tool_calls");
});

test("streamed calls put together are the calls of the plain answer", async () => {
  const params = { model: "sim-1", messages: user(mark("pieces of æ")), tools };
  const plain = await openai.chat.completions.create(params);
  const calls = [];
  let finish;
  for await (const chunk of await openai.chat.completions.create({ ...params, stream: true })) {
    for (const delta of chunk.choices[0].delta.tool_calls ?? []) {
      const call = (calls[delta.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
      call.id += delta.id ?? "";
      call.function.name += delta.function?.name ?? "";
      call.function.arguments += delta.function?.arguments ?? "";
    }
    finish = chunk.choices[0].finish_reason ?? finish;
  }
  assert.equal(finish, "tool_calls");
  assert.deepEqual(calls, plain.choices[0].message.tool_calls);
});

test("the stream helper reports each call", async () => {
  const params = { model: "sim-1", messages: user(mark("helper")), tools };
  const plain = await openai.chat.completions.create(params);
  const done = [];
  const runner = openai.chat.completions.stream(params).on("tool_calls.function.arguments.done", (call) => done.push([call.name, JSON.parse(call.arguments)]));
  await runner.finalChatCompletion();
  assert.deepEqual(done, called(plain.choices[0].message));
});

test("a chosen tool is the only one called, and none is none", async () => {
  const ask = (params) => openai.chat.completions.create({ model: "sim-1", messages: user(mark("choice")), tools, ...params });
  const chosen = await ask({ tool_choice: { type: "function", function: { name: "clock" } } });
  assert.deepEqual(called(chosen.choices[0].message).map(([name]) => name), ["clock"]);
  const serial = await ask({ parallel_tool_calls: false });
  assert.deepEqual(called(serial.choices[0].message).map(([name]) => name), ["weather"]);
  const none = await ask({ tool_choice: "none" });
  assert.equal(none.choices[0].finish_reason, "stop");
  assert.equal(none.choices[0].message.tool_calls, undefined);
});

for (const stream of [false, true]) {
  test(`runTools goes round until the answer, ${stream ? "streamed" : "plain"}`, async () => {
    const question = mark("round");
    const asked = [];
    const runnable = (definition, answer) => ({
      type: "function",
      function: { ...definition.function, parse: JSON.parse, function: (args) => (asked.push([definition.function.name, args]), answer) },
    });
    const runner = openai.chat.completions.runTools({
      model: "sim-1", stream, messages: user(question), tools: [runnable(weather, "4 degrees"), runnable(clock, "noon")],
    });
    const answer = await runner.finalContent();
    assert.ok(answer.startsWith(`echo: ${question}`), answer);
    assert.deepEqual(asked, [["weather", { city: question, unit: "celsius" }], ["clock", { zone: question }]]);

    const requests = await seen(question);
    assert.equal(requests.length, 2);
    const { messages } = JSON.parse(requests[1].body);
    assert.deepEqual(messages.map((message) => message.role), ["user", "assistant", "tool", "tool"]);
    assert.deepEqual(messages.slice(2).map((message) => message.content), ["4 degrees", "noon"]);
    assert.deepEqual(messages[1].tool_calls.map((call) => call.id), messages.slice(2).map((message) => message.tool_call_id));
  });
}
