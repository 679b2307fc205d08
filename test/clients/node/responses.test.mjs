import { zodTextFormat } from "openai/helpers/zod";
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIError, APIUserAbortError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError, RateLimitError } from "openai";
import { z } from "zod";
import { answers, model, png, schemas, targets, told, usual } from "./dialects.mjs";
import { gatewayKey, gatewayURL, logged, mark, refused, seen } from "./gateway.mjs";

const client = new OpenAI({ baseURL: gatewayURL, apiKey: gatewayKey, maxRetries: 0, timeout: 20_000 });
const tools = Object.entries(schemas).map(([name, parameters]) => ({ type: "function", name, description: `Asks for the ${name}.`, parameters, strict: true }));
const calls = (response) => response.output.filter((item) => item.type === "function_call");
const called = (response) => calls(response).map((call) => [call.name, JSON.parse(call.arguments)]);
const outputs = (response) => calls(response).map((call) => ({ type: "function_call_output", call_id: call.call_id, output: answers[call.name] }));
const text = (response) => response.output.flatMap((item) => (item.type === "message" ? item.content : [])).map((part) => part.text ?? "").join("");

for (const [dialect, slug] of Object.entries(targets)) {
  const ask = (input, more = {}, ...faults) => ({ model: model(slug, ...faults), input, store: false, ...more });

  test(`${dialect}: a plain answer, with its usage`, async () => {
    const question = mark("hello 世界");
    const { data, response } = await client.responses.create(ask(question, { instructions: "Be brief.", max_output_tokens: 1000 })).withResponse();
    assert.equal(data.object, "response");
    assert.equal(data.status, "completed");
    assert.ok(data.output_text.startsWith(`echo: ${question}`), data.output_text);
    assert.ok(data.usage.input_tokens > 5 && data.usage.output_tokens >= 64, JSON.stringify(data.usage));
    assert.equal(data.usage.total_tokens, data.usage.input_tokens + data.usage.output_tokens);
    assert.equal((await logged(response)).usage.completion_tokens, data.usage.output_tokens);
  });

  test(`${dialect}: responses.stream gives the plain answer`, async () => {
    const question = mark("flowing, über 🌊");
    const plain = await client.responses.create(ask(question));
    let flowed = "";
    let number = -1;
    const runner = client.responses.stream(ask(question));
    for await (const event of runner) {
      assert.ok(event.sequence_number > number, `${event.type} has the number ${event.sequence_number} after ${number}`);
      number = event.sequence_number;
      if (event.type === "response.output_text.delta") flowed += event.delta;
    }
    const final = await runner.finalResponse();
    assert.equal(flowed, plain.output_text);
    assert.equal(text(final), plain.output_text);
    assert.equal(final.status, "completed");
    assert.equal(final.usage.output_tokens, plain.usage.output_tokens);
    assert.equal(final.usage.input_tokens, plain.usage.input_tokens);
  });

  for (const [way, create] of [
    ["plain", (params) => client.responses.create(params)],
    ["streamed", (params) => client.responses.stream(params).finalResponse()],
  ]) {
    for (const thinking of [false, true]) {
      test(`${dialect}: parallel tools and their results, ${way}${thinking ? ", with reasoning" : ""}`, async () => {
        const question = mark('Ærø "quoted"');
        const more = { tools, ...(thinking && { reasoning: { effort: "medium", summary: "auto" }, include: ["reasoning.encrypted_content"] }) };
        const input = [{ role: "user", content: question }];
        const first = await create(ask(input, more));
        usual(called(first), question);
        input.push(...first.output.map(({ parsed_arguments, ...item }) => item), ...outputs(first));
        const second = await create(ask(input, more, "report"));
        const report = JSON.parse(text(second));
        told(report, question);
        if (!thinking) return;
        const thought = first.output.find((item) => item.type === "reasoning" && item.encrypted_content);
        if (["openai", "messages", "gemini", "claude"].includes(dialect)) assert.ok(thought, JSON.stringify(first.output));
        if (["openai", "messages", "claude"].includes(dialect)) {
          assert.equal(report.thinking.length, 1);
          assert.ok(report.thinking[0].signature.length > 8);
        }
        if (dialect === "gemini") assert.ok(report.calls[0].signature, "the call lost its signature");
      });
    }
  }

  test(`${dialect}: one tool by choice`, async () => {
    const question = mark("choice");
    const chosen = await client.responses.create(ask(question, { tools, tool_choice: { type: "function", name: "clock" } }));
    assert.deepEqual(called(chosen), [["clock", { zone: question }]]);
  });

  if (dialect !== "cohere") {
    test(`${dialect}: an image in the request`, async () => {
      const content = [{ type: "input_text", text: mark("look") }, { type: "input_image", image_url: `data:image/png;base64,${png}`, detail: "auto" }];
      const answer = await client.responses.create(ask([{ role: "user", content }], {}, "report"));
      assert.equal(JSON.parse(answer.output_text).images, 1);
    });
  }

  test(`${dialect}: the helper for structured output`, async () => {
    const format = zodTextFormat(z.object({ city: z.string(), degrees: z.number() }), "place");
    for (const parse of [
      (params) => client.responses.parse(params),
      (params) => client.responses.stream(params).finalResponse(),
    ]) {
      const answer = await parse(ask(mark("shape"), { text: { format } }));
      assert.deepEqual([typeof answer.output_parsed?.city, typeof answer.output_parsed?.degrees], ["string", "number"], JSON.stringify(answer.output));
    }
  });

  test(`${dialect}: the provider's refusals are the client's errors`, async () => {
    const fails = (fault, kind) => refused(client.responses.create(ask(mark("fails"), {}, fault)), kind);
    const limited = await fails("status=429+retry-after=7", RateLimitError);
    assert.equal(limited.headers.get("retry-after"), "7");
    await fails("status=500", InternalServerError);
    await fails("model-not-found", NotFoundError);
    await fails("context-length", BadRequestError);
    const streamed = client.responses.stream(ask(mark("fails"), {}, "status=503"));
    assert.equal((await refused(streamed.finalResponse(), InternalServerError)).status, 503);
  });

  for (const fault of ["error-event=6", "cut=6", "cut=6,clean"]) {
    test(`${dialect}: a stream that fails in the middle (${fault}) throws or says so`, async () => {
      const stream = await client.responses.create(ask(mark("broken"), { stream: true }, fault));
      let flowed = "";
      let said;
      try {
        for await (const event of stream) {
          if (event.type === "response.output_text.delta") flowed += event.delta;
          if (event.type === "response.failed") said = event.response.error.message;
          if (event.type === "error") said = event.message;
          assert.notEqual(event.type, "response.completed");
        }
      } catch (error) {
        assert.ok(error instanceof APIError, `${error}`);
        said ??= error.message;
      }
      assert.ok(flowed.length > 0, "nothing came before the error");
      assert.ok(said?.length > 5, `said ${said}`);
    });
  }

  test(`${dialect}: leaving a stream cancels it at the provider`, async () => {
    const question = mark("leave early");
    const stream = await client.responses.create(ask(question, { stream: true }, "pace=20ms", "tokens=2000"));
    for await (const event of stream) if (event.type === "response.output_text.delta") break;
    assert.equal((await seen(question))[0].canceled, true);
  });
}

test("a wrong key and an unknown provider are errors", async () => {
  const wrong = new OpenAI({ baseURL: gatewayURL, apiKey: "mg-wrong", maxRetries: 0 });
  await refused(wrong.responses.create({ model: model("sim"), input: "x" }), AuthenticationError);
  assert.equal((await refused(client.responses.create({ model: "@nobody/m", input: "x" }), NotFoundError)).code, "unknown_slug");
});

test("what only its provider keeps is refused elsewhere", async () => {
  const error = await refused(client.responses.create({ model: model("ant"), input: "x", previous_response_id: "resp_1" }), BadRequestError);
  assert.equal(error.param, "previous_response_id");
});
