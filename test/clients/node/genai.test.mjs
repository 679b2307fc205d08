import { ApiError, FunctionCallingConfigMode, ThinkingLevel } from "@google/genai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { answers, arrived, genai, model, png, schemas, targets, told, usual } from "./dialects.mjs";
import { mark, refused, seen } from "./gateway.mjs";

const ai = genai();
const functionDeclarations = Object.entries(schemas).map(([name, parametersJsonSchema]) => ({ name, description: `Asks for the ${name}.`, parametersJsonSchema }));
const tools = [{ functionDeclarations }];
const called = (response) => response.functionCalls.map((call) => [call.name, call.args]);

// collect reads a stream to its end and puts the answer together.
async function collect(stream) {
  const read = { text: "", chunks: 0, parts: [], calls: [], last: null };
  for await (const chunk of stream) {
    read.chunks++;
    read.parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    read.text += chunk.text ?? "";
    read.calls.push(...(chunk.functionCalls ?? []));
    read.last = chunk;
  }
  return read;
}

for (const [dialect, slug] of Object.entries(targets)) {
  const ask = (contents, config = {}, ...faults) => ({ model: model(slug, ...faults), contents, config });

  test(`${dialect}: a plain answer, with its usage`, async () => {
    const question = mark("hello 世界");
    const answer = await ai.models.generateContent(ask(question, { systemInstruction: "Be brief.", temperature: 0.5, maxOutputTokens: 1000 }));
    assert.ok(answer.text.startsWith(`echo: ${question}`), answer.text);
    assert.equal(answer.candidates[0].finishReason, "STOP");
    const { promptTokenCount, candidatesTokenCount, totalTokenCount } = answer.usageMetadata;
    assert.ok(promptTokenCount > 5 && candidatesTokenCount >= 64, JSON.stringify(answer.usageMetadata));
    assert.equal(totalTokenCount, promptTokenCount + candidatesTokenCount);
  });

  test(`${dialect}: generateContentStream gives the plain answer`, async () => {
    const question = mark("flowing, über 🌊");
    const plain = await ai.models.generateContent(ask(question));
    const read = await collect(await ai.models.generateContentStream(ask(question)));
    assert.equal(read.text, plain.text);
    assert.ok(read.chunks > 5, `${read.chunks} chunks`);
    assert.equal(read.last.candidates[0].finishReason, "STOP");
    assert.equal(read.last.usageMetadata.candidatesTokenCount, plain.usageMetadata.candidatesTokenCount);
    assert.equal(read.last.usageMetadata.promptTokenCount, plain.usageMetadata.promptTokenCount);
  });

  for (const stream of [false, true]) {
    const way = stream ? "streamed" : "plain";
    // generate returns the content of the model and the calls in it.
    async function generate(params) {
      if (!stream) {
        const answer = await ai.models.generateContent(params);
        return { content: answer.candidates[0].content, calls: answer.functionCalls, text: answer.text };
      }
      const read = await collect(await ai.models.generateContentStream(params));
      return { content: { role: "model", parts: read.parts }, calls: read.calls, text: read.text };
    }
    const results = (calls) => ({
      role: "user",
      parts: calls.map((call) => ({ functionResponse: { id: call.id, name: call.name, response: { output: answers[call.name] } } })),
    });

    for (const thinking of [false, true]) {
      test(`${dialect}: parallel tools and their results, ${way}${thinking ? ", with thinking" : ""}`, async () => {
        const question = mark('Ærø "quoted"');
        const config = { tools, ...(thinking && { thinkingConfig: { thinkingBudget: 2000, includeThoughts: true } }) };
        const contents = [{ role: "user", parts: [{ text: question }] }];
        const first = await generate(ask(contents, config));
        usual(first.calls.map((call) => [call.name, call.args]), question);
        contents.push(first.content, results(first.calls));
        const second = await generate(ask(contents, config, "report"));
        const report = JSON.parse(second.text);
        assert.deepEqual(report.calls.map((call) => [call.name, call.arguments]), first.calls.map((call) => [call.name, call.args]));
        assert.deepEqual(report.results.length, 2);
        report.results.forEach((result, i) => assert.ok(result.text.includes(Object.values(answers)[i]), JSON.stringify(result)));
        if (!thinking) return;
        const thought = first.content.parts.find((part) => part.thought && part.text);
        if (["messages", "gemini", "claude"].includes(dialect)) assert.ok(thought, JSON.stringify(first.content));
        if (["messages", "claude"].includes(dialect)) {
          assert.equal(report.thinking.length, 1);
          assert.ok(report.thinking[0].signature.length > 8);
        }
        if (dialect === "gemini") assert.ok(report.calls[0].signature, "the call lost its signature");
      });
    }
  }

  test(`${dialect}: one tool by choice`, async () => {
    const question = mark("choice");
    const toolConfig = { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ["clock"] } };
    const answer = await ai.models.generateContent(ask(question, { tools, toolConfig }));
    assert.deepEqual(called(answer), [["clock", { zone: question }]]);
  });

  if (dialect !== "cohere") {
    test(`${dialect}: an image in the request`, async () => {
      const parts = [{ text: mark("look") }, { inlineData: { mimeType: "image/png", data: png } }];
      const answer = await ai.models.generateContent(ask([{ role: "user", parts }], {}, "report"));
      assert.equal(JSON.parse(answer.text).images, 1);
    });
  }

  test(`${dialect}: structured output by a schema`, async () => {
    const responseJsonSchema = { type: "object", required: ["city", "degrees"], properties: { city: { type: "string" }, degrees: { type: "number" } }, additionalProperties: false };
    for (const shape of [{ responseJsonSchema }, {
      responseSchema: { type: "OBJECT", required: ["city", "degrees"], properties: { city: { type: "STRING" }, degrees: { type: "NUMBER" } } },
    }]) {
      const answer = await ai.models.generateContent(ask(mark("shape"), { responseMimeType: "application/json", ...shape }));
      const value = JSON.parse(answer.text);
      assert.deepEqual([typeof value.city, typeof value.degrees], ["string", "number"], answer.text);
      assert.equal(answer.candidates[0].finishReason, "STOP");
    }
  });

  test(`${dialect}: a chat keeps its history`, async () => {
    const chat = ai.chats.create({ model: model(slug, "report") });
    await chat.sendMessage({ message: mark("first") });
    let text = "";
    for await (const chunk of await chat.sendMessageStream({ message: mark("second") })) text += chunk.text ?? "";
    assert.equal(JSON.parse(text).texts.length, 3);
  });

  test(`${dialect}: the provider's refusals are the client's errors`, async () => {
    const fails = (fault) => refused(ai.models.generateContent(ask(mark("fails"), {}, fault)), ApiError);
    for (const [fault, status, word] of [
      ["status=429", 429, "RESOURCE_EXHAUSTED"], ["status=500", 500, "INTERNAL"], ["model-not-found", 404, "NOT_FOUND"], ["context-length", 400, "INVALID_ARGUMENT"],
    ]) {
      const error = await fails(fault);
      assert.equal(error.status, status);
      const body = JSON.parse(error.message);
      assert.equal(body.error.status, word);
      assert.equal(body.error.code, status);
    }
    const streamed = await refused(ai.models.generateContentStream(ask(mark("fails"), {}, "status=503")), ApiError);
    assert.equal(streamed.status, 503);
  });

  for (const fault of ["error-event=6", "cut=6", "cut=6,clean"]) {
    test(`${dialect}: a stream that fails in the middle (${fault}) throws`, async () => {
      const stream = await ai.models.generateContentStream(ask(mark("broken"), {}, fault));
      let flowed = "";
      const error = await refused((async () => {
        for await (const chunk of stream) flowed += chunk.text ?? "";
      })(), Error);
      assert.ok(flowed.length > 0, "nothing came before the error");
      assert.ok(error.message.length > 10, error.message);
    });
  }

  test(`${dialect}: leaving a stream cancels it at the provider`, async () => {
    const question = mark("leave early");
    const controller = new AbortController();
    const stream = await ai.models.generateContentStream(ask(question, { abortSignal: controller.signal }, "pace=20ms", "tokens=2000"));
    await refused((async () => {
      for await (const _ of stream) controller.abort();
    })(), Error);
    assert.equal((await seen(question))[0].canceled, true);
  });
}

test("what gemini 3 wants arrives as it stood", async () => {
  const question = mark("as it stood");
  const config = {
    thinkingConfig: { thinkingLevel: ThinkingLevel.LOW }, topK: 40, seed: 7, stopSequences: ["STOP"],
    safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  };
  await ai.models.generateContent({ model: "@gem/gemini-3-pro-preview", contents: question, config });
  const [body] = await arrived(question);
  assert.deepEqual(body.generationConfig, { thinkingConfig: { thinkingLevel: "LOW" }, topK: 40, seed: 7, stopSequences: ["STOP"] });
  assert.deepEqual(body.safetySettings, config.safetySettings);
});

test("a wrong key and an unknown provider are errors with their status", async () => {
  const wrong = await refused(genai({ apiKey: "mg-wrong" }).models.generateContent({ model: model("gem"), contents: "x" }), ApiError);
  assert.equal(wrong.status, 401);
  assert.equal(JSON.parse(wrong.message).error.status, "UNAUTHENTICATED");
  const unknown = await refused(ai.models.generateContent({ model: "@nobody/m", contents: "x" }), ApiError);
  assert.equal(unknown.status, 404);
});

test("a body that is wrong is refused by its name, whoever is asked", async () => {
  for (const slug of Object.values(targets)) {
    const error = await refused(ai.models.generateContent({ model: model(slug), contents: "x", config: { temperature: "hot" } }), ApiError);
    assert.equal(error.status, 400);
    assert.match(error.message, /temperature/);
  }
});
