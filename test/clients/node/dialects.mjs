// What the scripts of the clients other than openai share: a client of each
// dialect, the providers that it is let loose on, and what they were sent.
import Anthropic from "@anthropic-ai/sdk";
import { BedrockRuntimeClient } from "@aws-sdk/client-bedrock-runtime";
import { GoogleGenAI } from "@google/genai";
import assert from "node:assert/strict";
import { gatewayKey, gatewayURL, seen } from "./gateway.mjs";

// rootURL is the gateway's address without /v1.
export const rootURL = gatewayURL.replace(/\/v1$/, "");

// The providers, by what the gateway speaks to them. Models of claude at aws are
// reached in the messages dialect by its clients and in converse by all others.
export const targets = { chat: "chat", openai: "sim", messages: "ant", gemini: "gem", converse: "aws", claude: "claude", cohere: "coh" };

// The clients know a base address and a gateway key, and name the provider in
// the model. They do not retry, so that a case sees each answer.
export const anthropic = (options = {}) =>
  new Anthropic({ baseURL: rootURL, apiKey: gatewayKey, maxRetries: 0, timeout: 20_000, ...options });

export const genai = (options = {}) =>
  new GoogleGenAI({ apiKey: gatewayKey, httpOptions: { baseUrl: rootURL }, ...options });

export const bedrock = (options = {}) =>
  new BedrockRuntimeClient({
    region: "eu-north-1", endpoint: rootURL, token: { token: gatewayKey }, authSchemePreference: ["httpBearerAuth"],
    maxAttempts: 1, ...options,
  });

// What a model can do is known by its name.
const names = { sim: "gpt-5", ant: "claude-sonnet-4-5", gem: "gemini-2.5-flash", aws: "amazon.nova-pro-v1:0", claude: "anthropic.claude-sonnet-4-5-20250929-v1:0" };

// model names a model of a provider, with faults of the simulator.
export const model = (slug, ...faults) => [`@${slug === "claude" ? "aws" : slug}/${names[slug] ?? "sim-1"}`, ...faults].join("+");

// arrived returns the bodies of the requests at the provider that hold the text.
export const arrived = async (text) => (await seen(text)).map((request) => JSON.parse(request.body));

// A small red square.
export const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";

// The tools of the cases, and what they answer.
export const schemas = {
  weather: {
    type: "object", required: ["city", "unit"], additionalProperties: false,
    properties: { city: { type: "string" }, unit: { type: "string", enum: ["celsius", "kelvin"] } },
  },
  clock: { type: "object", required: ["zone"], additionalProperties: false, properties: { zone: { type: "string" } } },
};
export const answers = { weather: "4 degrees", clock: "noon" };

// usual asserts that tools were called as the simulator calls them.
export function usual(calls, question) {
  assert.deepEqual(calls, [["weather", { city: question, unit: "celsius" }], ["clock", { zone: question }]]);
}

// told asserts that a report of the simulator holds the calls and their results.
export function told(report, question) {
  usual(report.calls.map((call) => [call.name, call.arguments]), question);
  assert.deepEqual(report.results.map((result) => result.text), Object.values(answers));
  const ids = report.calls.map((call) => call.id);
  if (ids[0]) assert.deepEqual(report.results.map((result) => result.id), ids);
}
