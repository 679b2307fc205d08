// What the scripts share: the gateway under test, a client for it, and what
// arrived at the provider behind it.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import OpenAI from "openai";

function wanted(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set; run these scripts with: go test ./test/clients`);
  return value;
}

export const gatewayURL = wanted("GATEWAY_URL");
export const gatewayKey = wanted("GATEWAY_KEY");
export const providerURL = wanted("PROVIDER_URL");
export const providerKey = wanted("PROVIDER_KEY");
const booksURL = wanted("BOOKS_URL");

// administrator returns a function that sends requests of the administration to a gateway, all of
// which must be accepted.
export const administrator = (url) => async (method, path, body) => {
  const answer = await fetch(url + path, {
    method,
    headers: { "x-gateway-api-key": gatewayKey, "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const result = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(result));
  return result;
};

// client returns the client that most cases use: a gateway key in its own header
// and a managed provider. It does not retry, so that a case sees each answer.
export function client(options = {}) {
  return new OpenAI({
    baseURL: gatewayURL,
    apiKey: gatewayKey,
    maxRetries: 0,
    timeout: 20_000,
    ...options,
    defaultHeaders: { "x-gateway-provider": "@sim", ...options.defaultHeaders },
  });
}

// straight returns a client that speaks to the provider without the gateway, to
// compare with.
export const straight = () => new OpenAI({ baseURL: providerURL, apiKey: providerKey, maxRetries: 0, timeout: 20_000 });

// mark returns a text that no other request holds.
export const mark = (about) => `${about} ${randomUUID()}`;

// seen returns the requests at the provider that hold the text, and waits until
// there is one.
export async function seen(text) {
  const response = await fetch(`${booksURL}/?mark=${encodeURIComponent(text)}`);
  const list = await response.json();
  assert.notEqual(list.length, 0, `no request with ${text} has come to the provider`);
  return list;
}

// unseen asserts that no request at the provider holds the text.
export async function unseen(text) {
  const response = await fetch(`${booksURL}/?none=1&mark=${encodeURIComponent(text)}`);
  assert.deepEqual(await response.json(), []);
}

// logged returns what the gateway recorded of an answer. An exchange is recorded
// after its last byte, so the entry may come a moment later.
export async function logged(response) {
  const id = response.headers.get("x-gateway-request-id");
  assert.ok(id, "the answer has no x-gateway-request-id");
  for (const end = Date.now() + 10_000; Date.now() < end; ) {
    const log = await fetch(`${gatewayURL}/logs/${id}`, { headers: { "x-gateway-api-key": gatewayKey } });
    if (log.status === 200) return log.json();
    assert.equal(log.status, 404, await log.text());
  }
  assert.fail(`the exchange ${id} was not recorded`);
}

// user returns the messages of a request with one question.
export const user = (content) => [{ role: "user", content }];

// refused awaits a promise that must fail, and returns the error.
export async function refused(promise, kind) {
  let error;
  try {
    await promise;
  } catch (e) {
    error = e;
  }
  assert.ok(error, "the request succeeded, want an error");
  assert.ok(error instanceof kind, `the error is ${error?.constructor?.name}, want ${kind.name}: ${error}`);
  return error;
}
