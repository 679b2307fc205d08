import Anthropic, {
  APIError, APIUserAbortError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError, RateLimitError,
} from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { anthropic, answers, arrived, model, png, schemas, targets, told, usual } from "./dialects.mjs";
import { logged, mark, refused, seen, user } from "./gateway.mjs";

const client = anthropic();
const tools = Object.entries(schemas).map(([name, input_schema]) => ({ name, description: `Asks for the ${name}.`, input_schema }));
const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const uses = (message) => message.content.filter((block) => block.type === "tool_use");
const called = (message) => uses(message).map((use) => [use.name, use.input]);
const results = (message) =>
  uses(message).map((use) => ({ type: "tool_result", tool_use_id: use.id, content: answers[use.name] }));

for (const [dialect, slug] of Object.entries(targets)) {
  const ask = (params, ...faults) => ({ model: model(slug, ...faults), max_tokens: 4000, ...params });

  test(`${dialect}: a plain answer, with its usage`, async () => {
    const question = mark("hello 世界");
    const { data, response } = await client.messages.create(ask({ messages: user(question), system: "Be brief." })).withResponse();
    assert.equal(data.type, "message");
    assert.equal(data.role, "assistant");
    assert.equal(data.stop_reason, "end_turn");
    assert.ok(text(data).startsWith(`echo: ${question}`), text(data));
    assert.ok(data.usage.input_tokens > 5 && data.usage.output_tokens >= 64, JSON.stringify(data.usage));
    assert.equal((await logged(response)).usage.completion_tokens, data.usage.output_tokens);
  });

  test(`${dialect}: the stream helper puts the plain answer together`, async () => {
    const params = ask({ messages: user(mark("flowing, über 🌊")) });
    const plain = await client.messages.create(params);
    let flowed = "";
    let deltas = 0;
    const runner = client.messages.stream(params).on("text", (delta) => ((flowed += delta), deltas++));
    const final = await runner.finalMessage();
    assert.equal(text(final), text(plain));
    assert.equal(flowed, text(plain));
    assert.ok(deltas > 5, `${deltas} deltas`);
    assert.equal(final.stop_reason, "end_turn");
    assert.equal(final.usage.output_tokens, plain.usage.output_tokens);
    assert.equal(final.usage.input_tokens, plain.usage.input_tokens);
  });

  for (const stream of [false, true]) {
    const create = (params) => (stream ? client.messages.stream(params).finalMessage() : client.messages.create(params));
    test(`${dialect}: parallel tools and their results, ${stream ? "streamed" : "plain"}`, async () => {
      const question = mark('Ærø "quoted"');
      const messages = user(question);
      const first = await create(ask({ messages, tools }));
      assert.equal(first.stop_reason, "tool_use");
      usual(called(first), question);
      messages.push({ role: "assistant", content: first.content }, { role: "user", content: results(first) });
      const second = await create(ask({ messages, tools }, "report"));
      assert.equal(second.stop_reason, "end_turn");
      told(JSON.parse(text(second)), question);
    });

    test(`${dialect}: thinking comes back in the second turn, ${stream ? "streamed" : "plain"}`, async () => {
      const question = mark("think");
      const thinking = { type: "enabled", budget_tokens: 2000 };
      const messages = user(question);
      const first = await create(ask({ messages, tools, thinking }));
      const thought = first.content.find((block) => block.type === "thinking");
      if (["messages", "gemini", "claude"].includes(dialect)) assert.ok(thought, JSON.stringify(first.content));
      usual(called(first), question);
      messages.push({ role: "assistant", content: first.content }, { role: "user", content: results(first) });
      const second = await create(ask({ messages, tools, thinking }, "report"));
      const report = JSON.parse(text(second));
      told(report, question);
      // The provider gets its own signature back, as it was.
      if (dialect === "messages" || dialect === "claude") {
        assert.deepEqual(report.thinking.map((t) => [t.text, t.signature]), [[thought.thinking, thought.signature]]);
      }
      if (dialect === "gemini") assert.ok(report.calls[0].signature, "the call lost its signature");
    });
  }

  test(`${dialect}: one tool by choice, and none in parallel`, async () => {
    const question = mark("choice");
    const chosen = await client.messages.create(ask({ messages: user(question), tools, tool_choice: { type: "tool", name: "clock" } }));
    assert.deepEqual(called(chosen), [["clock", { zone: question }]]);
  });

  if (dialect !== "cohere") {
    test(`${dialect}: an image in the request`, async () => {
      const content = [
        { type: "text", text: mark("look") },
        { type: "image", source: { type: "base64", media_type: "image/png", data: png } },
      ];
      const answer = await client.messages.create(ask({ messages: user(content) }, "report"));
      assert.equal(JSON.parse(text(answer)).images, 1);
    });
  }

  test(`${dialect}: the helper for structured output`, async () => {
    const format = zodOutputFormat(z.object({ city: z.string(), degrees: z.number() }));
    for (const parse of [
      (params) => client.messages.parse(params),
      (params) => client.messages.stream(params).finalMessage(),
    ]) {
      const answer = await parse(ask({ messages: user(mark("shape")), output_config: { format } }));
      assert.equal(typeof answer.parsed_output?.city, "string", JSON.stringify(answer));
      assert.equal(typeof answer.parsed_output.degrees, "number");
      assert.equal(answer.stop_reason, "end_turn");
    }
  });

  test(`${dialect}: the tool runner goes round until the answer`, async () => {
    const question = mark("round");
    const asked = [];
    const runnable = (name, inputSchema) =>
      betaZodTool({ name, description: name, inputSchema, run: (input) => (asked.push([name, input]), answers[name]) });
    const final = await client.beta.messages.toolRunner(ask({
      messages: user(question),
      ...(dialect === "claude" && { thread: false }), // aws keeps no conversations, and does not say so in words that clients know
      tools: [
        runnable("weather", z.object({ city: z.string(), unit: z.enum(["celsius", "kelvin"]) })),
        runnable("clock", z.object({ zone: z.string() })),
      ],
    }));
    assert.ok(text(final).startsWith(`echo: ${question}`), text(final));
    usual(asked, question);
  });

  test(`${dialect}: the provider's refusals are the client's errors`, async () => {
    const fails = (fault, kind) => refused(client.messages.create(ask({ messages: user(mark("fails")) }, fault)), kind);
    const limited = await fails("status=429+retry-after=7", RateLimitError);
    assert.equal(limited.status, 429);
    assert.equal(limited.headers.get("retry-after"), "7");
    assert.equal(limited.error.type, "error");
    assert.equal(limited.error.error.type, "rate_limit_error");
    assert.equal((await fails("status=500", InternalServerError)).error.error.type, "api_error");
    assert.equal((await fails("model-not-found", NotFoundError)).error.error.type, "not_found_error");
    assert.equal((await fails("context-length", BadRequestError)).error.error.type, "invalid_request_error");
    const streamed = client.messages.stream(ask({ messages: user(mark("fails")) }, "status=503"));
    assert.equal((await refused(streamed.finalMessage(), InternalServerError)).status, 503);
  });

  for (const fault of ["error-event=6", "cut=6", "cut=6,clean"]) {
    test(`${dialect}: a stream that fails in the middle (${fault}) throws`, async () => {
      const runner = client.messages.stream(ask({ messages: user(mark("broken")) }, fault));
      let flowed = "";
      runner.on("text", (delta) => (flowed += delta));
      const error = await refused(runner.finalMessage(), Anthropic.AnthropicError);
      assert.ok(flowed.length > 0, "nothing came before the error");
      assert.ok(error instanceof APIError, `${error.constructor.name}: ${error.message}`);
      assert.ok(error.message.length > 10, error.message);
    });
  }

  test(`${dialect}: leaving a stream cancels it at the provider`, async () => {
    const question = mark("leave early");
    const runner = client.messages.stream(ask({ messages: user(question) }, "pace=20ms", "tokens=2000"));
    runner.on("text", () => runner.abort());
    await refused(runner.finalMessage(), APIUserAbortError);
    assert.equal((await seen(question))[0].canceled, true);
  });
}

test("a wrong key is an AuthenticationError", async () => {
  const error = await refused(anthropic({ apiKey: "mg-wrong" }).messages.create({ model: model("ant"), max_tokens: 9, messages: user("x") }), AuthenticationError);
  assert.equal(error.error.error.type, "authentication_error");
});

test("an unknown provider is a NotFoundError", async () => {
  const error = await refused(client.messages.create({ model: "@nobody/m", max_tokens: 9, messages: user("x") }), NotFoundError);
  assert.equal(error.error.error.type, "not_found_error");
});

test("a result without its call is a BadRequestError that names it, whoever is asked", async () => {
  const messages = user([{ type: "tool_result", tool_use_id: "toolu_none", content: "x" }]);
  for (const slug of Object.values(targets)) {
    const error = await refused(client.messages.create({ model: model(slug), max_tokens: 9, messages }), BadRequestError);
    assert.equal(error.error.error.type, "invalid_request_error");
    assert.match(error.message, /toolu_none|messages/);
  }
});

test("the key also goes as a bearer token", async () => {
  const bearer = anthropic({ apiKey: null, authToken: client.apiKey });
  const answer = await bearer.messages.create({ model: model("ant"), max_tokens: 100, messages: user("bearer") });
  assert.ok(text(answer).startsWith("echo: bearer"));
});

test("tokens are counted", async () => {
  const params = { model: model("ant"), messages: user(mark("count")), system: "Be brief.", tools };
  const counted = await client.messages.countTokens(params);
  const answer = await client.messages.create({ ...params, max_tokens: 100 });
  assert.equal(counted.input_tokens, answer.usage.input_tokens);
});

test("tokens are counted where the provider counts them", async () => {
  for (const slug of ["gem", "aws"]) {
    const params = { model: model(slug), messages: user(mark("count")) };
    const counted = await client.messages.countTokens(params);
    const answer = await client.messages.create({ ...params, max_tokens: 100 });
    assert.equal(counted.input_tokens, answer.usage.input_tokens, slug);
  }
});

test("tokens are estimated, and said to be, where the provider does not count them", async () => {
  for (const slug of ["chat", "coh"]) {
    const { data, response } = await client.messages.countTokens({ model: model(slug), messages: user("count") }).withResponse();
    assert.ok(data.input_tokens > 0, slug);
    assert.match(response.headers.get("x-gateway-params"), /^input_tokens;adapted="an estimate/, slug);
  }
});

test("cached tokens are told apart", async () => {
  for (const slug of ["ant", "gem", "aws", "chat", "sim"]) {
    const message = await client.messages.create({ model: model(slug, "cached=40"), max_tokens: 100, messages: user("cached") });
    assert.equal(message.usage.cache_read_input_tokens, 40, slug);
    assert.ok(message.usage.input_tokens < 40, slug);
  }
});

test("models are listed page by page", async () => {
  const all = [];
  for await (const each of client.models.list({ limit: 3 })) all.push(each);
  const ids = all.map((each) => each.id);
  for (const id of ["@sim/sim-1", "@ant/sim-5", "@gem/sim-1", "@aws/anthropic.claude-sim"]) assert.ok(ids.includes(id), `${id} is not in ${ids}`);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(all.every((each) => each.type === "model" && each.display_name && !Number.isNaN(Date.parse(each.created_at))));
  const page = await client.models.list({ limit: 1000 });
  assert.deepEqual(page.data.map((each) => each.id), ids);
  assert.equal(page.hasNextPage(), false);
});
