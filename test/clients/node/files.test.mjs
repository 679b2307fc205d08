import Anthropic from "@anthropic-ai/sdk";
import { ApiError } from "@google/genai";
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { NotFoundError, toFile } from "openai";
import { anthropic, genai } from "./dialects.mjs";
import { client, logged, mark, providerKey, refused, seen, user } from "./gateway.mjs";

const openai = client();

// listed reads every page of a list.
async function listed(resource) {
  const ids = [];
  for await (const each of resource.list()) ids.push(each.id);
  return ids;
}

test("the models of every provider are listed under names that a request takes", async () => {
  const open = client({ defaultHeaders: { "x-gateway-provider": null } });
  const ids = await listed(open.models);
  for (const id of ["@sim/sim-1", "@sim/sim-embed-1", "@alone/sim-1"]) assert.ok(ids.includes(id), `${id} is not in ${ids}`);
  assert.ok(!ids.includes("@alone/sim-1-mini"), "a model that the entry does not list");
  const question = mark("a listed name");
  const data = await open.chat.completions.create({ model: "@sim/sim-1", messages: user(question) });
  assert.ok(data.choices[0].message.content.startsWith(`echo: ${question}`));
});

test("the models of one provider are those it lists itself", async () => {
  assert.deepEqual(await listed(openai.models), ["sim-1", "sim-1-mini", "sim-embed-1"]);
  const model = await openai.models.retrieve("sim-1");
  assert.deepEqual([model.id, model.owned_by], ["sim-1", "simulator"]);
});

test("a file goes up, is read back and goes away", async () => {
  const content = randomBytes(5 << 20);
  const name = `${mark("file")}.jsonl`;
  const { data: file, response } = await openai.files.create({ file: await toFile(content, name), purpose: "assistants" }).withResponse();
  assert.equal(file.filename, name);
  assert.equal(file.bytes, content.length);
  assert.equal(file.purpose, "assistants");
  assert.equal(file.sha256, createHash("sha256").update(content).digest("hex"));

  assert.deepEqual(await openai.files.retrieve(file.id), file);
  const ids = await listed(openai.files);
  assert.ok(ids.includes(file.id), `${file.id} is not in ${ids}`);
  const back = Buffer.from(await (await openai.files.content(file.id)).arrayBuffer());
  assert.ok(back.equals(content), `${back.length} bytes came back, other ones than went up`);

  assert.deepEqual(await openai.files.delete(file.id), { id: file.id, object: "file", deleted: true });
  const gone = await refused(openai.files.retrieve(file.id), NotFoundError);
  assert.equal(gone.code, "not_found");

  const entry = await logged(response);
  assert.equal(entry.operation, "proxy");
  assert.equal(entry.method, "POST");
  assert.equal(entry.status, 200);
  assert.ok(entry.request_bytes > content.length);
});

test("a file of an Anthropic client goes up, is listed and goes away", async () => {
  const { files } = anthropic().beta;
  const name = `${mark("file")}.csv`;
  const up = await files.upload({ file: await toFile(Buffer.from("item,value\n"), name, { type: "text/csv" }) });
  assert.deepEqual([up.filename, up.mime_type, up.size_bytes, up.downloadable], [name, "text/csv", 11, false]);
  assert.deepEqual(await files.retrieveMetadata(up.id), up);
  const ids = await listed(files);
  assert.ok(ids.includes(up.id), `${up.id} is not in ${ids}`);
  assert.deepEqual(await files.delete(up.id), { id: up.id, type: "file_deleted" });
  const gone = await refused(files.retrieveMetadata(up.id), Anthropic.NotFoundError);
  assert.equal(gone.error.error.type, "not_found_error");
});

test("a file of a Gemini client goes up, is listed and goes away", async () => {
  const { files } = genai();
  const content = randomBytes(9 << 20); // two chunks
  const up = await files.upload({ file: new Blob([content], { type: "image/png" }), config: { displayName: "picture", mimeType: "image/png" } });
  assert.deepEqual([up.state, up.displayName, up.mimeType, up.sizeBytes], ["ACTIVE", "picture", "image/png", String(content.length)]);
  assert.equal(up.sha256Hash, createHash("sha256").update(content).digest("base64"));
  assert.equal((await files.get({ name: up.name })).uri, up.uri);
  const names = [];
  for await (const each of await files.list({ config: { pageSize: 1 } })) names.push(each.name);
  assert.ok(names.includes(up.name), `${up.name} is not in ${names}`);
  await files.delete({ name: up.name });
  const gone = await refused(files.get({ name: up.name }), ApiError);
  assert.equal(gone.status, 404);
});

// The simulator answers a path that it does not know with a description of the
// request.
test("a path that the gateway does not know is passed through", async () => {
  const id = mark("resp").replaceAll(" ", "-");
  const params = { instructions: id, extra: { z: 1, a: 2 } };
  const echo = await openai.post(`/vector_stores/${id}/search`, { body: params, query: { b: 2, a: 1 } });
  assert.equal(echo.method, "POST");
  assert.equal(echo.uri, `/v1/vector_stores/${id}/search?b=2&a=1`);
  const body = JSON.stringify(params);
  assert.equal(echo.size, body.length);
  assert.equal(echo.body_sha256, createHash("sha256").update(body).digest("hex"));
  assert.equal(echo.headers.Authorization[0], `Bearer ${providerKey}`);

  const [request] = await seen(id);
  assert.equal(request.body, body);
  const gone = await openai.delete(`/vector_stores/${id}`);
  assert.equal(gone.method, "DELETE");
});
