import {
  BedrockRuntimeServiceException, ConverseCommand, ConverseStreamCommand, InternalServerException,
  ResourceNotFoundException, ServiceUnavailableException, ThrottlingException, ValidationException,
} from "@aws-sdk/client-bedrock-runtime";
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { answers, bedrock, model, png, schemas, targets, told, usual } from "./dialects.mjs";
import { mark, refused, seen } from "./gateway.mjs";

const client = bedrock();
after(() => client.destroy());
const tools = Object.entries(schemas).map(([name, json]) => ({ toolSpec: { name, description: `Asks for the ${name}.`, inputSchema: { json } } }));
const says = (text) => ({ role: "user", content: [{ text }] });
const text = (message) => message.content.map((block) => block.text ?? "").join("");
const uses = (message) => message.content.flatMap((block) => block.toolUse ?? []);
const called = (message) => uses(message).map((use) => [use.name, use.input]);
const results = (message) => ({
  role: "user",
  content: uses(message).map((use) => ({ toolResult: { toolUseId: use.toolUseId, content: [{ text: answers[use.name] }], status: "success" } })),
});

// whole sends a command and returns the answer.
async function whole(params) {
  const answer = await client.send(new ConverseCommand(params));
  return { message: answer.output.message, stop: answer.stopReason, usage: answer.usage };
}

// gathered sends a command for a stream and puts the answer together, with the
// order of its events checked.
async function gathered(params) {
  const { stream } = await client.send(new ConverseStreamCommand(params));
  const read = { message: { content: [] }, events: 0 };
  const inputs = [];
  const open = new Set();
  for await (const event of stream) {
    read.events++;
    if (event.messageStart) read.message.role = event.messageStart.role;
    if (event.contentBlockStart) {
      const { contentBlockIndex: at, start } = event.contentBlockStart;
      read.message.content[at] = { toolUse: { ...start.toolUse } };
      inputs[at] = "";
    }
    if (event.contentBlockDelta) {
      const { contentBlockIndex: at, delta } = event.contentBlockDelta;
      open.add(at);
      const block = (read.message.content[at] ??= {});
      if (delta.text !== undefined) block.text = (block.text ?? "") + delta.text;
      if (delta.toolUse) inputs[at] += delta.toolUse.input;
      if (delta.reasoningContent) {
        const thought = ((block.reasoningContent ??= { reasoningText: { text: "" } }), block.reasoningContent.reasoningText);
        thought.text += delta.reasoningContent.text ?? "";
        if (delta.reasoningContent.signature) thought.signature = (thought.signature ?? "") + delta.reasoningContent.signature;
      }
    }
    if (event.contentBlockStop) {
      const at = event.contentBlockStop.contentBlockIndex;
      open.delete(at);
      if (inputs[at] !== undefined) read.message.content[at].toolUse.input = JSON.parse(inputs[at] || "{}");
    }
    if (event.messageStop) {
      assert.equal(open.size, 0, "a block is open at the end");
      read.stop = event.messageStop.stopReason;
    }
    if (event.metadata) read.usage = event.metadata.usage;
  }
  return read;
}

for (const [dialect, slug] of Object.entries(targets)) {
  const ask = (messages, more = {}, ...faults) => ({ modelId: model(slug, ...faults), messages, ...more });

  test(`${dialect}: a plain answer, with its usage`, async () => {
    const question = mark("hello 世界");
    const answer = await whole(ask([says(question)], { system: [{ text: "Be brief." }], inferenceConfig: { maxTokens: 1000, temperature: 0.5 } }));
    assert.equal(answer.message.role, "assistant");
    assert.equal(answer.stop, "end_turn");
    assert.ok(text(answer.message).startsWith(`echo: ${question}`), text(answer.message));
    const { inputTokens, outputTokens, totalTokens } = answer.usage;
    assert.ok(inputTokens > 5 && outputTokens >= 64, JSON.stringify(answer.usage));
    assert.equal(totalTokens, inputTokens + outputTokens);
  });

  test(`${dialect}: ConverseStream gives the plain answer`, async () => {
    const params = ask([says(mark("flowing, über 🌊"))]);
    const plain = await whole(params);
    const read = await gathered(params);
    assert.equal(text(read.message), text(plain.message));
    assert.equal(read.message.role, "assistant");
    assert.equal(read.stop, "end_turn");
    assert.ok(read.events > 8, `${read.events} events`);
    assert.equal(read.usage.inputTokens, plain.usage.inputTokens);
    assert.equal(read.usage.outputTokens, plain.usage.outputTokens);
  });

  for (const [way, send] of [["plain", whole], ["streamed", gathered]]) {
    test(`${dialect}: parallel tools and their results, ${way}`, async () => {
      const question = mark('Ærø "quoted"');
      const messages = [says(question)];
      const first = await send(ask(messages, { toolConfig: { tools } }));
      assert.equal(first.stop, "tool_use");
      usual(called(first.message), question);
      messages.push(first.message, results(first.message));
      const second = await send(ask(messages, { toolConfig: { tools } }, "report"));
      assert.equal(second.stop, "end_turn");
      told(JSON.parse(text(second.message)), question);
    });

    test(`${dialect}: thinking comes back in the second turn, ${way}`, async () => {
      const question = mark("think");
      const more = {
        toolConfig: { tools }, inferenceConfig: { maxTokens: 4000 },
        additionalModelRequestFields: { thinking: { type: "enabled", budget_tokens: 2000 } },
      };
      const messages = [says(question)];
      // What a model can't think about it refuses itself, in its own dialect.
      if (dialect === "converse") delete more.additionalModelRequestFields;
      const first = await send(ask(messages, more));
      usual(called(first.message), question);
      const thought = first.message.content.find((block) => block.reasoningContent?.reasoningText?.text)?.reasoningContent.reasoningText;
      if (["messages", "gemini", "claude"].includes(dialect)) assert.ok(thought, JSON.stringify(first.message));
      messages.push(first.message, results(first.message));
      const second = await send(ask(messages, more, "report"));
      const report = JSON.parse(text(second.message));
      told(report, question);
      if (["messages", "claude"].includes(dialect)) {
        assert.deepEqual(report.thinking.map((t) => [t.text, t.signature]), [[thought.text, thought.signature]]);
      }
      if (dialect === "gemini") assert.ok(report.calls[0].signature, "the call lost its signature");
    });
  }

  test(`${dialect}: one tool by choice`, async () => {
    const question = mark("choice");
    const chosen = await whole(ask([says(question)], { toolConfig: { tools, toolChoice: { tool: { name: "clock" } } } }));
    assert.deepEqual(called(chosen.message), [["clock", { zone: question }]]);
  });

  if (dialect !== "cohere") {
    test(`${dialect}: an image in the request`, async () => {
      const content = [{ text: mark("look") }, { image: { format: "png", source: { bytes: Buffer.from(png, "base64") } } }];
      const answer = await whole(ask([{ role: "user", content }], {}, "report"));
      assert.equal(JSON.parse(text(answer.message)).images, 1);
    });
  }

  test(`${dialect}: structured output by a schema`, async () => {
    const schema = JSON.stringify({ type: "object", required: ["city", "degrees"], properties: { city: { type: "string" }, degrees: { type: "number" } }, additionalProperties: false });
    const outputConfig = { textFormat: { type: "json_schema", structure: { jsonSchema: { name: "place", schema } } } };
    const answer = await whole(ask([says(mark("shape"))], { outputConfig }));
    const value = JSON.parse(text(answer.message));
    assert.deepEqual([typeof value.city, typeof value.degrees], ["string", "number"]);
    assert.equal(answer.stop, "end_turn");
  });

  test(`${dialect}: the provider's refusals are the client's exceptions`, async () => {
    const fails = (fault, kind) => refused(whole(ask([says(mark("fails"))], {}, fault)), kind);
    assert.equal((await fails("status=429", ThrottlingException)).$metadata.httpStatusCode, 429);
    await fails("status=500", InternalServerException);
    await fails("model-not-found", ResourceNotFoundException);
    await fails("context-length", ValidationException);
    await refused(client.send(new ConverseStreamCommand(ask([says(mark("fails"))], {}, "status=503"))), ServiceUnavailableException);
  });

  for (const fault of ["error-event=6", "cut=6", "cut=6,clean"]) {
    test(`${dialect}: a stream that fails in the middle (${fault}) throws`, async () => {
      const { stream } = await client.send(new ConverseStreamCommand(ask([says(mark("broken"))], {}, fault)));
      let flowed = "";
      const error = await refused((async () => {
        for await (const event of stream) flowed += event.contentBlockDelta?.delta.text ?? "";
      })(), Error);
      assert.ok(flowed.length > 0, "nothing came before the error");
      assert.ok(error instanceof BedrockRuntimeServiceException, `${error.constructor.name}: ${error.message}`);
      assert.ok(error.message.length > 5, error.message);
    });
  }

  test(`${dialect}: leaving a stream cancels it at the provider`, async () => {
    const question = mark("leave early");
    const controller = new AbortController();
    const { stream } = await client.send(new ConverseStreamCommand(ask([says(question)], {}, "pace=20ms", "tokens=2000")), { abortSignal: controller.signal });
    for await (const event of stream) if (event.contentBlockDelta) controller.abort(); // ends without an error
    assert.equal((await seen(question))[0].canceled, true);
  });
}

test("a wrong key and an unknown provider are exceptions with their status", async () => {
  const stranger = bedrock({ token: { token: "mg-wrong" } });
  const wrong = await refused(stranger.send(new ConverseCommand({ modelId: model("aws"), messages: [says("x")] })), BedrockRuntimeServiceException);
  stranger.destroy();
  assert.equal(wrong.$metadata.httpStatusCode, 401);
  await refused(whole({ modelId: "@nobody/m", messages: [says("x")] }), ResourceNotFoundException);
});

test("an ARN in the path reaches the provider as it is", async () => {
  const question = mark("by arn");
  const arn = "arn:aws:bedrock:eu-north-1:123456789012:inference-profile/eu.amazon.nova-pro-v1:0";
  await whole({ modelId: `@aws/${arn}`, messages: [says(question)] });
  const [request] = await seen(question);
  assert.equal(decodeURIComponent(request.uri), `/model/${arn}/converse`);
});

test("guardrails and request metadata arrive as they stood", async () => {
  const question = mark("as it stood");
  const more = {
    guardrailConfig: { guardrailIdentifier: "g1", guardrailVersion: "1", trace: "enabled" },
    performanceConfig: { latency: "optimized" }, requestMetadata: { team: "a" },
  };
  await whole({ modelId: model("aws"), messages: [says(question)], ...more });
  const body = JSON.parse((await seen(question))[0].body);
  for (const name of Object.keys(more)) assert.deepEqual(body[name], more[name]);
});
