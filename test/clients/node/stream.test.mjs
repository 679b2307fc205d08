import assert from "node:assert/strict";
import { test } from "node:test";
import { APIError, APIUserAbortError } from "openai";
import { client, logged, mark, refused, seen, user } from "./gateway.mjs";

const openai = client();

// collect reads a stream to its end.
async function collect(stream) {
  const read = { text: "", chunks: 0, finish: null, usage: null };
  for await (const chunk of stream) {
    read.chunks++;
    read.text += chunk.choices[0]?.delta?.content ?? "";
    read.finish = chunk.choices[0]?.finish_reason ?? read.finish;
    read.usage = chunk.usage ?? read.usage;
  }
  return read;
}

test("a stream gives the text of the plain answer, and its usage", async () => {
  const params = { model: "sim-1", messages: user(mark("flowing, über 🌊")) };
  const plain = await openai.chat.completions.create(params);
  const { data, response } = await openai.chat.completions
    .create({ ...params, stream: true, stream_options: { include_usage: true } })
    .withResponse();
  const read = await collect(data);
  assert.equal(read.text, plain.choices[0].message.content);
  assert.equal(read.finish, "stop");
  assert.ok(read.chunks > 10, `${read.chunks} chunks`);
  assert.deepEqual(read.usage, plain.usage);
  assert.match(response.headers.get("content-type"), /^text\/event-stream/);
  assert.equal(response.headers.get("x-accel-buffering"), "no");

  const entry = await logged(response);
  assert.equal(entry.stream, true);
  assert.equal(entry.status, 200);
  assert.equal(entry.finish_reason, "stop");
  assert.equal(entry.usage.completion_tokens, plain.usage.completion_tokens);
  assert.ok(entry.timing.first_token_ms > 0);
});

test("a stream without include_usage shows none", async () => {
  const read = await collect(await openai.chat.completions.create({ model: "sim-1", messages: user(mark("quiet")), stream: true }));
  assert.equal(read.usage, null);
  assert.equal(read.finish, "stop");
});

test("choices of one stream keep apart", async () => {
  const params = { model: "sim-1", messages: user(mark("both")), n: 2 };
  const plain = await openai.chat.completions.create(params);
  const texts = ["", ""];
  for await (const chunk of await openai.chat.completions.create({ ...params, stream: true })) {
    for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? "";
  }
  assert.deepEqual(texts, plain.choices.map((choice) => choice.message.content));
});

test("the stream helper puts the message together", async () => {
  const question = mark("helper");
  let text = "";
  const runner = openai.chat.completions
    .stream({ model: "sim-1", messages: user(question) })
    .on("content", (delta) => (text += delta));
  const completion = await runner.finalChatCompletion();
  assert.equal(completion.choices[0].message.content, text);
  assert.ok(text.startsWith(`echo: ${question}`));
});

test("frames arrive while the provider is still talking", async () => {
  const began = performance.now();
  const stream = await openai.chat.completions.create({
    model: "sim-1+stall=2s@4", messages: user(mark("early")), stream: true,
  });
  let first;
  let text = "";
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    if (text) first ??= performance.now() - began;
  }
  const whole = performance.now() - began;
  assert.ok(whole - first > 500, `the first text came after ${first} ms of ${whole}, want it before the provider's pause of 2 s`);
});

test("aborting a stream cancels it at the provider and is recorded as 499", async () => {
  const question = mark("leave early");
  const { data: stream, response } = await openai.chat.completions
    .create({ model: "sim-1+pace=20ms+tokens=2000", messages: user(question), stream: true })
    .withResponse();
  let chunks = 0;
  for await (const _ of stream) {
    if (++chunks === 3) break;
  }
  assert.equal(stream.controller.signal.aborted, true);
  const [request] = await seen(question);
  assert.equal(request.canceled, true);
  const entry = await logged(response);
  assert.equal(entry.status, 499);
});

test("an abort signal ends a request that waits for its answer", async () => {
  const question = mark("never mind");
  const controller = new AbortController();
  const waiting = openai.chat.completions.create({ model: "sim-1+hang", messages: user(question) }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 500);
  await refused(waiting, APIUserAbortError);
  const [request] = await seen(question);
  assert.equal(request.canceled, true);
});

// What goes wrong after the first frame has to come out of the loop as an error:
// a clean end would pass a part off as the whole.
for (const [what, fault] of [
  ["is cut off", "cut=5"],
  ["ends cleanly in the middle", "cut=5,clean"],
  ["reports an error", "error-event=5"],
]) {
  test(`a stream that ${what} at the provider throws`, async () => {
    const stream = await openai.chat.completions.create({ model: `sim-1+${fault}`, messages: user(mark(what)), stream: true });
    let text = "";
    const error = await refused(
      (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
      })(),
      APIError,
    );
    assert.ok(text.length > 0, "nothing came before the error");
    assert.ok(error.message.length > 10, error.message);
  });
}

test("the stream helper throws where the stream is cut off", async () => {
  const runner = openai.chat.completions.stream({ model: "sim-1+cut=6", messages: user(mark("helper cut")) });
  await refused(runner.finalChatCompletion(), APIError);
});

test("a stream whose provider leaves out the end is whole", async () => {
  const params = { messages: user(mark("no end")) };
  const plain = await openai.chat.completions.create({ ...params, model: "sim-1" });
  const read = await collect(await openai.chat.completions.create({ ...params, model: "sim-1+no-done", stream: true }));
  assert.equal(read.text, plain.choices[0].message.content);
  assert.equal(read.finish, "stop");
});
