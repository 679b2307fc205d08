import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { BadRequestError, toFile } from "openai";
import { client, logged, mark, refused, seen, straight } from "./gateway.mjs";

const openai = client();
const direct = straight();

test("embeddings come as numbers, whether packed on the way or not", async () => {
  const params = { model: "sim-embed-1", input: [mark("one"), mark("two")], dimensions: 64 };
  const { data: packed, response } = await openai.embeddings.create(params).withResponse();
  const plain = await openai.embeddings.create({ ...params, encoding_format: "float" });
  assert.deepEqual(plain, await direct.embeddings.create({ ...params, encoding_format: "float" }));
  assert.equal(packed.data.length, 2);
  for (const [i, { embedding }] of packed.data.entries()) {
    assert.equal(embedding.length, 64);
    assert.deepEqual([...embedding].map(Math.fround), plain.data[i].embedding.map(Math.fround));
  }
  const formats = (await seen(params.input[0])).map((request) => JSON.parse(request.body).encoding_format);
  assert.deepEqual(formats.slice(0, 2), ["base64", "float"]);

  const entry = await logged(response);
  assert.equal(entry.operation, "embeddings");
  assert.equal(entry.usage.prompt_tokens, packed.usage.prompt_tokens);
});

test("images come as addresses and as pictures", async () => {
  const prompt = mark("a dune");
  const linked = await openai.images.generate({ model: "sim-image", prompt, n: 2 });
  assert.equal(linked.data.length, 2);
  for (const image of linked.data) assert.match(image.url, /^https:\/\/images\.simulator\.invalid\/.+\.png$/);
  const inline = await openai.images.generate({ model: "sim-image", prompt, response_format: "b64_json" });
  const picture = Buffer.from(inline.data[0].b64_json, "base64");
  assert.deepEqual([...picture.subarray(1, 4)], [...Buffer.from("PNG")]);
  assert.equal(inline.data[0].revised_prompt, prompt);
});

test("speech arrives byte for byte", async () => {
  const params = { model: "sim-tts", voice: "alloy", input: mark("spoken ".repeat(100)), response_format: "wav" };
  const response = await openai.audio.speech.create(params);
  assert.equal(response.headers.get("content-type"), "audio/wav");
  const sound = Buffer.from(await response.arrayBuffer());
  const same = Buffer.from(await (await direct.audio.speech.create(params)).arrayBuffer());
  assert.equal(sound.length, Buffer.byteLength(params.input) * 256);
  assert.ok(sound.equals(same));
});

test("transcriptions take an upload, and translations too", async () => {
  const sound = randomBytes(3 << 20);
  const sum = createHash("sha256").update(sound).digest("hex");
  for (const api of [openai.audio.transcriptions, openai.audio.translations]) {
    const said = await api.create({ model: "sim-stt", file: await toFile(sound, "talk ü.wav", { type: "audio/wav" }) });
    assert.ok(said.text.includes(`of ${sound.length} bytes, sha256 ${sum}`), said.text);
    assert.equal(said.file.sha256, sum);
  }
});

test("a transcription streams its words", async () => {
  const file = await toFile(Buffer.from("sound"), "talk.mp3");
  const plain = await openai.audio.transcriptions.create({ model: "sim-stt", file });
  let text = "";
  let done;
  for await (const event of await openai.audio.transcriptions.create({ model: "sim-stt", file, stream: true })) {
    if (event.type === "transcript.text.delta") text += event.delta;
    if (event.type === "transcript.text.done") done = event.text;
  }
  assert.equal(text, plain.text);
  assert.equal(done, plain.text);
});

test("moderations flag what is bad and not the rest", async () => {
  const verdict = await openai.moderations.create({ model: "sim-moderation", input: [mark("flowers"), mark("violence")] });
  assert.deepEqual(verdict.results.map((result) => result.flagged), [false, true]);
  assert.equal(verdict.results[1].categories.violence, true);
  assert.equal(verdict.results[1].categories.hate, false);
});

test("too many pictures for one request are refused by name", async () => {
  const error = await refused(openai.images.generate({ model: "sim-image", prompt: mark("many"), n: 11 }), BadRequestError);
  assert.equal(error.param, "n");
});
