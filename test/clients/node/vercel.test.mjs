import { createAmazonBedrock } from "@ai-sdk/amazon-bedrock";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { answers, model, png, rootURL, schemas, targets, usual } from "./dialects.mjs";
import { gatewayKey as apiKey, gatewayURL, mark, refused, seen } from "./gateway.mjs";

// The library has a client of each protocol of its own.
const openai = createOpenAI({ baseURL: gatewayURL, apiKey });
const google = createGoogle({ baseURL: `${rootURL}/v1beta`, apiKey });
const clients = {
  chat: (id) => openai.chat(id),
  compatible: createOpenAICompatible({ name: "modelgate", baseURL: gatewayURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }),
  responses: (id) => openai.responses(id),
  messages: createAnthropic({ baseURL: gatewayURL, apiKey }),
  gemini: google,
  converse: createAmazonBedrock({ baseURL: rootURL, apiKey, region: "eu-north-1" }),
};

for (const [dialect, client] of Object.entries(clients)) {
  for (const slug of Object.values(targets)) {
    const way = `${dialect} client at @${slug}`;
    const ask = (more, ...faults) => ({ model: client(model(slug, ...faults)), maxRetries: 0, maxOutputTokens: 4000, ...more });

    test(`${way}: text, whole and streamed`, async () => {
      const prompt = mark("hello 世界 🌊");
      const plain = await generateText(ask({ prompt }));
      assert.ok(plain.text.startsWith(`echo: ${prompt}`), plain.text);
      assert.equal(plain.finishReason, "stop");
      assert.ok(plain.usage.inputTokens > 5 && plain.usage.outputTokens >= 64, JSON.stringify(plain.usage));
      const stream = streamText(ask({ prompt, onError() {} }));
      let flowed = "";
      for await (const piece of stream.textStream) flowed += piece;
      assert.equal(flowed, plain.text);
      assert.equal(await stream.finishReason, "stop");
      assert.equal((await stream.usage).outputTokens, plain.usage.outputTokens);
    });

    for (const streamed of [false, true]) {
      test(`${way}: the tool loop, ${streamed ? "streamed" : "whole"}`, async () => {
        const prompt = mark('Ærø "quoted"');
        const asked = [];
        const tools = Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, tool({
          description: `Asks for the ${name}.`, inputSchema: jsonSchema(schema),
          execute: async (input) => (asked.push([name, input]), answers[name]),
        })]));
        const params = ask({ prompt, tools, stopWhen: stepCountIs(3), onError() {} });
        const result = streamed ? streamText(params) : await generateText(params);
        assert.ok((await result.text).startsWith(`echo: ${prompt}`), await result.text);
        usual(asked, prompt);
        assert.equal((await result.steps).length, 2);
      });
    }

    if (slug !== "coh") {
      test(`${way}: an image`, async () => {
        const content = [{ type: "text", text: mark("look") }, { type: "file", data: Buffer.from(png, "base64"), mediaType: "image/png" }];
        const answer = await generateText(ask({ messages: [{ role: "user", content }] }, "report"));
        assert.equal(JSON.parse(answer.text).images, 1);
      });
    }

    test(`${way}: an object by a schema`, async () => {
      const output = Output.object({ schema: z.object({ city: z.string(), degrees: z.number() }) });
      const answer = await generateText(ask({ prompt: mark("shape"), output }));
      assert.deepEqual([typeof answer.output.city, typeof answer.output.degrees], ["string", "number"]);
    });

    test(`${way}: errors`, async () => {
      const error = await refused(generateText(ask({ prompt: mark("limit") }, "status=429")), Error);
      assert.ok(APICallError.isInstance(error), `${error}`); // the packages have a class each
      assert.equal(error.statusCode, 429);
      assert.equal(error.isRetryable, true);
      assert.match(error.message, /rate limit/);
      const unknown = await refused(generateText({ model: client("@nobody/m"), prompt: "x", maxRetries: 0 }), Error);
      assert.equal(unknown.statusCode, 404);
      let failed;
      const broken = streamText(ask({ prompt: mark("broken"), onError: ({ error }) => (failed = error) }, "error-event=6"));
      let flowed = "";
      try {
        for await (const piece of broken.textStream) flowed += piece;
      } catch (error) {
        failed ??= error;
      }
      assert.ok(flowed.length > 0, "nothing came before the error");
      assert.ok(failed, "the stream ended as if it were whole");
    });
  }

  test(`${dialect} client: an abandoned stream is canceled at the provider`, async () => {
    const prompt = mark("leave early");
    const controller = new AbortController();
    const stream = streamText({ model: client(model("ant", "pace=20ms", "tokens=2000")), prompt, abortSignal: controller.signal, maxRetries: 0, onError() {} });
    for await (const _ of stream.textStream) controller.abort();
    assert.equal((await seen(prompt))[0].canceled, true);
  });
}

test("thinking of claude goes through two turns of the messages client", async () => {
  const prompt = mark("think");
  const tools = { weather: tool({ inputSchema: jsonSchema(schemas.weather), execute: async () => answers.weather }) };
  const params = (more, ...faults) => ({
    model: clients.messages(model("ant", ...faults)), maxRetries: 0, tools, maxOutputTokens: 4000,
    providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 2000 } } }, ...more,
  });
  const first = await generateText(params({ prompt }));
  assert.ok(first.reasoningText?.length > 10);
  const messages = [{ role: "user", content: prompt }, ...first.response.messages];
  const second = await generateText(params({ messages }, "report"));
  const report = JSON.parse(second.text);
  assert.equal(report.thinking[0].text, first.reasoningText);
  assert.ok(report.thinking[0].signature);
});
