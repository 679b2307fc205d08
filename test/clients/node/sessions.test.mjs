// What sessions bring with them: long ids of users, compressed requests, and calls with
// the ids of the provider before, which another provider would refuse.
import assert from "node:assert/strict";
import { test } from "node:test";
import zlib from "node:zlib";
import { anthropic, answers, arrived, genai, model, schemas, targets } from "./dialects.mjs";
import { client, mark, user } from "./gateway.mjs";

// What Claude Code sends, by its form and length.
const longUser = `user_${"0123456789abcdef".repeat(4)}_account_${"f".repeat(36)}_session_${"0".repeat(36)}`;

for (const [dialect, slug] of Object.entries(targets)) {
  test(`${dialect}: a user with a long id`, async () => {
    const question = mark("who");
    const params = { model: model(slug), max_tokens: 4000, messages: user(question), metadata: { user_id: longUser } };
    assert.equal((await anthropic().messages.create(params)).stop_reason, "end_turn");
    await anthropic().messages.stream(params).finalMessage();
    for (const body of await arrived(question)) {
      assert.ok((body.user ?? body.safety_identifier ?? "").length <= 64, JSON.stringify(body));
    }
  });
}

const encoders = {
  gzip: zlib.gzipSync, deflate: zlib.deflateSync, br: zlib.brotliCompressSync, zstd: zlib.zstdCompressSync,
};

// compressed is a fetch that sends bodies in a coding.
const compressed = (coding) => (url, init) => {
  const headers = new Headers(init.headers);
  headers.set("content-encoding", coding);
  headers.delete("content-length");
  return fetch(url, { ...init, headers, body: encoders[coding](init.body) });
};

for (const coding of Object.keys(encoders)) {
  for (const [dialect, slug] of Object.entries(targets)) {
    test(`${dialect}: requests in ${coding}`, async () => {
      assert.ok(encoders[coding], `this node has no ${coding}`);
      const question = mark("small");
      const openai = client({ fetch: compressed(coding), defaultHeaders: { "x-gateway-provider": null } });
      const { choices } = await openai.chat.completions.create({ model: model(slug), messages: user(question) });
      assert.ok(choices[0].message.content.startsWith(`echo: ${question}`));
      const response = await openai.responses.create({ model: model(slug), input: question });
      assert.ok(response.output_text.startsWith(`echo: ${question}`));
      const message = await anthropic({ fetch: compressed(coding) }).messages.create({ model: model(slug), max_tokens: 4000, messages: user(question) });
      assert.ok(message.content.at(-1).text.startsWith(`echo: ${question}`));
    });
  }
}

// Sessions of each client library: a call of the first model, whose result goes to the
// second.
const [name] = Object.keys(schemas);
const sessions = {
  async chat(first, second, question) {
    const openai = client({ defaultHeaders: { "x-gateway-provider": null } });
    const tools = [{ type: "function", function: { name, parameters: schemas[name] } }];
    const messages = user(question);
    const { message } = (await openai.chat.completions.create({ model: first, messages, tools })).choices[0];
    messages.push(message, ...message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: answers[name] })));
    return (await openai.chat.completions.create({ model: second, messages, tools })).choices[0].message.content;
  },
  async messages(first, second, question) {
    const tools = [{ name, input_schema: schemas[name] }];
    const messages = user(question);
    const { content } = await anthropic().messages.create({ model: first, max_tokens: 4000, messages, tools });
    const results = content.filter((block) => block.type === "tool_use").map((use) => ({ type: "tool_result", tool_use_id: use.id, content: answers[name] }));
    messages.push({ role: "assistant", content }, { role: "user", content: results });
    return (await anthropic().messages.create({ model: second, max_tokens: 4000, messages, tools })).content.at(-1).text;
  },
  async responses(first, second, question) {
    const openai = client({ defaultHeaders: { "x-gateway-provider": null } });
    const tools = [{ type: "function", name, parameters: schemas[name], strict: true }];
    const input = user(question);
    const { output } = await openai.responses.create({ model: first, input, tools, store: false });
    const results = output.filter((item) => item.type === "function_call").map((call) => ({ type: "function_call_output", call_id: call.call_id, output: answers[name] }));
    return (await openai.responses.create({ model: second, input: [...input, ...output, ...results], tools, store: false })).output_text;
  },
  async gemini(first, second, question) {
    const config = { tools: [{ functionDeclarations: [{ name, parametersJsonSchema: schemas[name] }] }] };
    const contents = [{ role: "user", parts: [{ text: question }] }];
    const { candidates } = await genai().models.generateContent({ model: first, contents, config });
    const { content } = candidates[0];
    const parts = content.parts.filter((part) => part.functionCall).map(({ functionCall: { id } }) => ({ functionResponse: { id, name, response: { output: answers[name] } } }));
    contents.push(content, { role: "user", parts });
    return (await genai().models.generateContent({ model: second, contents, config })).text;
  },
};

for (const [library, run] of Object.entries(sessions)) {
  for (const [from, first] of Object.entries(targets)) {
    for (const [to, second] of Object.entries(targets)) {
      if (first === second) continue;
      test(`${library}: a session goes from ${from} to ${to}`, async () => {
        const question = mark("change");
        // A host of another vendor gets ids of its own protocol as they are: some keep data in them.
        const ids = library === "chat" && to === "chat" ? 64 : 100;
        const text = await run(model(first, `call-ids=${ids}`), model(second), question);
        assert.ok(text.length > 0);
      });
    }
  }
}
