import assert from "node:assert/strict";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { InvalidWebhookSignatureError, NotFoundError } from "openai";
import { client, refused } from "./gateway.mjs";

const openai = client({ defaultHeaders: { "x-gateway-provider": null } });

// receive starts a receiver that verifies each event with a secret, and returns its address
// and the events.
async function receive(t, secret) {
  const events = [];
  const server = createServer(async (request, response) => {
    try {
      events.push(await openai.webhooks.unwrap(await text(request), request.headers, secret()));
      response.writeHead(204).end();
    } catch (error) {
      assert.ok(error instanceof InvalidWebhookSignatureError, error);
      response.writeHead(400).end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}/events`, events };
}

test("an endpoint is created, tested, rotated and deleted, and its events are unwrapped", async (t) => {
  let secret;
  const { url, events } = await receive(t, () => secret);
  const made = await openai.webhooks.create({ name: "Batches", url, event_types: ["batch.completed"] });
  secret = made.signing_secret;
  const result = await openai.webhooks.test(made.id, { event_type: "batch.completed" });
  assert.deepEqual([result.success, result.status_code], [true, 204]);
  assert.deepEqual(events.map((event) => [event.object, event.type]), [["event", "batch.completed"]]);
  assert.ok(Math.abs(events[0].created_at - Date.now() / 1000) < 60 && events[0].data.id, JSON.stringify(events[0]));

  const ids = [];
  for await (const each of openai.webhooks.list({ limit: 1 })) ids.push(each.id);
  assert.ok(ids.includes(made.id), `${made.id} is not in ${ids}`);
  assert.deepEqual((await openai.webhooks.update(made.id, { event_types: ["batch.failed"] })).event_types, ["batch.failed"]);
  assert.equal((await openai.webhooks.retrieve(made.id)).signing_secret_hint.slice(-4), secret.slice(-4));
  assert.ok((await openai.webhooks.eventTypes.list()).data.includes("fine_tuning.job.succeeded"));

  const rotated = await openai.webhooks.rotateSecret(made.id);
  assert.equal((await openai.webhooks.test(made.id, { event_type: "batch.completed" })).status_code, 400);
  secret = rotated.signing_secret;
  assert.equal((await openai.webhooks.test(made.id, { event_type: "batch.completed" })).status_code, 204);
  assert.equal((await openai.webhooks.delete(made.id)).deleted, true);
  await refused(openai.webhooks.retrieve(made.id), NotFoundError);
});
