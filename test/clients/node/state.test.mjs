// What outlives a request, by the official libraries: kept by the gateway, and by a provider.
import Anthropic from "@anthropic-ai/sdk";
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { BadRequestError, ConflictError, NotFoundError, toFile } from "openai";
import { anthropic } from "./dialects.mjs";
import { client, gatewayKey, gatewayURL, mark, refused } from "./gateway.mjs";

const own = client({ defaultHeaders: { "x-gateway-provider": null } });
const vendor = client();

// until reads until done holds of what was read, for a minute at most.
async function until(read, done) {
  for (const end = Date.now() + 60_000; ; await pause(20)) {
    const value = await read();
    if (done(value)) return value;
    assert.ok(Date.now() < end, `waited in vain: ${JSON.stringify(value)}`);
  }
}

async function all(pages) {
  const list = [];
  for await (const each of pages) list.push(each);
  return list;
}

const lines = (...models) =>
  Buffer.from(models.map((model, i) => JSON.stringify({
    custom_id: `c${i}`, method: "POST", url: "/v1/chat/completions", body: { model, messages: [{ role: "user", content: `line ${i}` }] },
  }) + "\n").join(""));

const parsed = async (response) => (await response.text()).trim().split("\n").map((line) => JSON.parse(line));

for (const [where, openai] of [["the gateway", own], ["a provider", vendor]]) {
  test(`files at ${where}`, async () => {
    const content = randomBytes(1 << 20);
    const file = await openai.files.create({ file: await toFile(content, "a.bin"), purpose: "user_data" });
    assert.deepEqual([file.object, file.filename, file.bytes, file.purpose, file.status], ["file", "a.bin", content.length, "user_data", "processed"]);
    assert.equal((await openai.files.waitForProcessing(file.id)).id, file.id);
    assert.deepEqual(await openai.files.retrieve(file.id), file);
    assert.ok(Buffer.from(await (await openai.files.content(file.id)).arrayBuffer()).equals(content));
    const ids = async (query) => (await all(openai.files.list(query))).map((each) => each.id);
    assert.ok((await ids({ purpose: "user_data", limit: 1, order: "desc" })).includes(file.id));
    assert.ok(!(await ids({ purpose: "vision" })).includes(file.id));
    assert.equal((await openai.files.delete(file.id)).deleted, true);
    for (const verb of ["retrieve", "content", "delete"]) await refused(openai.files[verb](file.id), NotFoundError);
  });
}

test("uploads in parts", async () => {
  const content = randomBytes(3 << 20);
  const create = (bytes) => own.uploads.create({ bytes, filename: "a.bin", mime_type: "application/octet-stream", purpose: "user_data" });
  const upload = await create(content.length);
  const parts = [];
  for (const i of [2, 0, 1]) parts[i] = (await own.uploads.parts.create(upload.id, { data: await toFile(content.subarray(i << 20, (i + 1) << 20), "part") })).id;
  const done = await own.uploads.complete(upload.id, { part_ids: parts, md5: createHash("md5").update(content).digest("hex") });
  assert.deepEqual([done.status, done.file.bytes], ["completed", content.length]);
  assert.ok(Buffer.from(await (await own.files.content(done.file.id)).arrayBuffer()).equals(content));
  const cancelled = await create(1);
  assert.equal((await own.uploads.cancel(cancelled.id)).status, "cancelled");
  await refused(own.uploads.parts.create(cancelled.id, { data: await toFile(Buffer.from("a"), "part") }), BadRequestError);
});

for (const [where, openai, models, completion_window] of [
  ["the gateway at once", own, ["@ant/sim-1", "@gem/sim-1", "@ant/sim-1+status=400"], "immediate"],
  ["the gateway in a day", own, ["@chat/sim-1", "@gem/sim-1", "@chat/sim-1+status=400"], "24h"],
  ["a provider", vendor, ["sim-1", "sim-1"], "24h"],
]) {
  test(`a batch of ${where}`, async () => {
    const file = await openai.files.create({ file: await toFile(lines(...models), "a.jsonl"), purpose: "batch" });
    let batch = await openai.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window, metadata: { a: "b" } });
    assert.deepEqual([batch.object, batch.input_file_id, batch.metadata], ["batch", file.id, { a: "b" }]);
    batch = await until(() => openai.batches.retrieve(batch.id), (b) => ["completed", "failed", "expired", "cancelled"].includes(b.status));
    assert.deepEqual([batch.status, batch.request_counts.completed, batch.request_counts.failed], ["completed", 2, models.length - 2]);
    const results = await parsed(await openai.files.content(batch.output_file_id));
    assert.deepEqual(results.map((r) => r.custom_id).sort(), ["c0", "c1"]);
    for (const r of results) assert.match(r.response.body.choices[0].message.content, /line \d/);
    if (models.length > 2) {
      const failures = await parsed(await openai.files.content(batch.error_file_id));
      assert.deepEqual(failures.map((f) => [f.custom_id, f.response.status_code]), [["c2", 400]]);
    }
    assert.ok((await all(openai.batches.list({ limit: 1 }))).some((b) => b.id === batch.id));
  });
}

for (const [where, openai, model, completion_window] of [["the gateway", own, "@ant/sim-1+headers=1m", "immediate"], ["a provider", vendor, "sim-1+job=hang", "24h"]]) {
  test(`a batch of ${where} is cancelled`, async () => {
    const file = await openai.files.create({ file: await toFile(lines(model), "a.jsonl"), purpose: "batch" });
    const { id } = await openai.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window });
    await until(() => openai.batches.retrieve(id), (b) => b.status === "in_progress");
    assert.match((await openai.batches.cancel(id)).status, /^cancel/);
    await until(() => openai.batches.retrieve(id), (b) => b.status === "cancelled");
    await refused(openai.batches.cancel(id), ConflictError);
    await refused(openai.batches.retrieve("batch_none"), NotFoundError);
  });
}

test("fine-tuning jobs", async () => {
  const examples = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n`.repeat(12);
  const file = await vendor.files.create({ file: await toFile(Buffer.from(examples), "a.jsonl"), purpose: "fine-tune" });
  const { jobs } = vendor.fineTuning;
  let job = await jobs.create({ model: "gpt-4o-mini", training_file: file.id, suffix: "own", seed: 7, method: { type: "supervised", supervised: { hyperparameters: { n_epochs: 1 } } } });
  assert.deepEqual([job.object, job.training_file, job.seed, job.fine_tuned_model], ["fine_tuning.job", file.id, 7, null]);
  job = await until(() => jobs.retrieve(job.id), (j) => ["succeeded", "failed", "cancelled"].includes(j.status));
  assert.deepEqual([job.status, job.error], ["succeeded", null]);
  assert.match(job.fine_tuned_model, /own/);
  assert.ok((await all(jobs.list({ limit: 1 }))).some((j) => j.id === job.id));
  const events = await all(jobs.listEvents(job.id, { limit: 1 }));
  assert.ok(events.length > 1 && new Set(events.map((e) => e.id)).size === events.length, JSON.stringify(events));
  for (const checkpoint of await all(jobs.checkpoints.list(job.id, { limit: 1 }))) assert.equal(checkpoint.fine_tuning_job_id, job.id);
  await refused(jobs.cancel(job.id), BadRequestError);
  await refused(jobs.retrieve("ftjob-none"), NotFoundError);
  const running = await jobs.create({ model: "gpt-4o-mini+job=hang", training_file: file.id });
  await until(() => jobs.retrieve(running.id), (j) => j.status === "running");
  await jobs.pause(running.id);
  await jobs.resume(running.id);
  assert.equal((await jobs.cancel(running.id)).status, "cancelled");
});

for (const model of ["@ant/sim-1", "@gem/sim-1", "@sim/gpt-5"]) {
  test(`responses of ${model} are read, continued and deleted`, async () => {
    const question = mark("stored");
    const first = await own.responses.create({ model, input: question, store: true });
    const read = await own.responses.retrieve(first.id, { include: ["message.input_image.image_url"] });
    assert.equal(read.output_text, first.output_text);
    assert.ok(JSON.stringify(await all(own.responses.inputItems.list(first.id))).includes(question));
    const second = await own.responses.create({ model, input: "and then", previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    await own.responses.delete(first.id);
    for (const verb of ["retrieve", "delete"]) await refused(own.responses[verb](first.id), NotFoundError);
    await refused(own.responses.inputItems.list(first.id), NotFoundError);
  });
}

for (const model of ["@ant/sim-1", "@sim/gpt-5"]) {
  test(`responses of ${model} in the background`, async () => {
    const begun = await own.responses.create({ model, input: mark("later"), background: true });
    const done = await until(() => own.responses.retrieve(begun.id), (r) => r.status === "completed");
    const events = await all(await own.responses.create({ model, input: mark("later"), background: true, stream: true }));
    const again = await all(await own.responses.retrieve(events[0].response.id, { stream: true, starting_after: 2 }));
    assert.deepEqual(again.map((e) => [e.sequence_number, e.type]), events.slice(3).map((e) => [e.sequence_number, e.type]));
    assert.equal(again.at(-1).type, "response.completed");
    assert.equal((await own.responses.cancel(done.id)).status, "completed");
  });
}

test("a response in the background is cancelled", async () => {
  const { id } = await own.responses.create({ model: "@ant/sim-1+headers=1m", input: "hi", background: true });
  await until(() => own.responses.retrieve(id), (r) => r.status === "in_progress");
  for (let i = 0; i < 2; i++) assert.equal((await own.responses.cancel(id)).status, "cancelled");
});

test("conversations", async () => {
  const { conversations } = own;
  const message = (content) => ({ type: "message", role: "user", content });
  const talk = await conversations.create({ metadata: { a: "b" }, items: [message("one")] });
  assert.deepEqual((await conversations.retrieve(talk.id)).metadata, { a: "b" });
  const added = await conversations.items.create(talk.id, { items: [message("two")] });
  const item = await conversations.items.retrieve(added.data[0].id, { conversation_id: talk.id });
  assert.equal(item.content[0].text, "two");
  assert.equal((await own.responses.create({ model: "@ant/sim-1", input: "three", conversation: talk.id })).conversation.id, talk.id);
  const roles = (await all(conversations.items.list(talk.id, { order: "asc", limit: 2 }))).map((each) => each.role);
  assert.deepEqual(roles, ["user", "user", "user", "assistant"]);
  await conversations.items.delete(item.id, { conversation_id: talk.id });
  await refused(conversations.items.retrieve(item.id, { conversation_id: talk.id }), NotFoundError);
  assert.deepEqual((await conversations.update(talk.id, { metadata: { c: "d" } })).metadata, { c: "d" });
  assert.equal((await conversations.delete(talk.id)).deleted, true);
  await refused(conversations.retrieve(talk.id), NotFoundError);
});

test("client secrets", async () => {
  const session = { type: "realtime", model: "@sim/gpt-realtime" };
  const create = (seconds) => own.realtime.clientSecrets.create({ expires_after: { anchor: "created_at", seconds }, session });
  const made = await create(60);
  assert.match(made.value, /^ek_/);
  assert.ok(!made.value.includes(gatewayKey) && Math.abs(made.expires_at - Date.now() / 1000 - 60) < 30, JSON.stringify(made));
  assert.equal(made.session.type, "realtime");
  await refused(create(5), BadRequestError);
});

for (const name of ["messages", "beta"]) {
  test(`batches of messages (${name}), with results from the address in the batch`, async () => {
    const both = anthropic({ defaultHeaders: { "x-gateway-provider": "@ant" } });
    const { batches } = name === "beta" ? both.beta.messages : both.messages;
    const params = { model: "sim-1", max_tokens: 10, messages: [{ role: "user", content: mark("batch") }] };
    const made = await batches.create({ requests: [{ custom_id: "a", params }, { custom_id: "b", params: { ...params, model: "sim-1+status=400" } }] });
    assert.equal(made.type, "message_batch");
    const ended = await until(() => batches.retrieve(made.id), (b) => b.processing_status === "ended");
    assert.ok(ended.results_url.startsWith(`${gatewayURL}/messages/batches/`), ended.results_url);
    const results = (await all(await batches.results(made.id))).map((r) => [r.custom_id, r.result.type]);
    assert.deepEqual(results.sort(), [["a", "succeeded"], ["b", "errored"]]);
    assert.ok((await all(batches.list({ limit: 1 }))).some((b) => b.id === made.id));
    assert.equal((await batches.delete(made.id)).type, "message_batch_deleted");
    await refused(batches.retrieve(made.id), Anthropic.NotFoundError);
    const hanging = await batches.create({ requests: [{ custom_id: "a", params: { ...params, model: "sim-1+job=hang" } }] });
    assert.match((await batches.cancel(hanging.id)).processing_status, /canceling|ended/);
  });
}
