// The OAuth client of the official MCP library signs in to tool servers, and a real browser
// consents: discovery, consent, code, tokens, refresh and revocation.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { auth, refreshAuthorization } from "@modelcontextprotocol/sdk/client/auth.js";
import { chromium } from "playwright-core";
import { gatewayKey } from "./gateway.mjs";

const gatewayURL = process.env.PEOPLE_URL;
const root = gatewayURL.replace(/\/v1$/, "");
const password = "a long password of a test";
const tools = new URL("/mcp", root);
let browser, listener, callback, clientID;
let received = () => {};

async function call(method, path, body, key = gatewayKey) {
  const answer = await fetch(gatewayURL + path, {
    method, headers: { ...(key && { "x-gateway-api-key": key }), "content-type": "application/json" }, body: body && JSON.stringify(body),
  });
  const result = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(result));
  return result;
}

before(async () => {
  const { invite_link: link } = await call("POST", "/admin/users/invites", {
    email: "tools@example.com", role: "member", workspaces: [{ id: "default", role: "member" }],
  });
  await call("POST", "/auth/invites/accept", { token: new URL(link, root).searchParams.get("token"), password }, "");
  // A client that an administrator registered for a port that it does not know yet.
  const client = await call("POST", "/oauth/clients", { name: "An <b>editor</b>", redirect_uris: ["http://127.0.0.1/callback"] });
  clientID = client.id;
  listener = http.createServer((request, response) => {
    response.end("You can close this page.");
    if (request.url.startsWith("/callback")) received(new URL(request.url, callback));
  });
  await new Promise((done) => listener.listen(0, "127.0.0.1", done));
  callback = `http://127.0.0.1:${listener.address().port}/callback`;
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});

after(async () => {
  await browser?.close();
  listener?.close();
});

// Provider is what the library asks an application for.
class Provider {
  constructor() { this.given = Math.random().toString(36); }
  get redirectUrl() { return callback; }
  get clientMetadata() { return { client_name: "x", redirect_uris: [callback], token_endpoint_auth_method: "none" }; }
  state() { return this.given; }
  clientInformation() { return { client_id: clientID }; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  redirectToAuthorization(address) { this.address = address; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
}

// open opens the consent page in a browser that nobody has signed in with yet.
async function open(address) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(String(address));
  await page.getByLabel("E-mail address").fill("tools@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByText("An <b>editor</b>").waitFor(); // as text
  await page.getByText("tools@example.com").waitFor();
  await page.getByText(new URL(callback).host, { exact: true }).waitFor();
  await page.getByText("Any program here can say so").waitFor();
  return page;
}

// waitUntil waits for a node to know of a change.
async function waitUntil(what, holds) {
  for (let i = 0; i < 300; i++) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`never: ${what}`);
}

const ask = (token, path = "/mcp") => fetch(root + path, {
  method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: "{}",
});

test("a person consents in a browser, and the library gets tokens", async () => {
  const refused = await ask("mg-unknown");
  assert.equal(refused.status, 401);
  const metadata = /resource_metadata="([^"]+)"/.exec(refused.headers.get("www-authenticate"))[1];
  assert.equal((await (await fetch(metadata)).json()).resource, tools.href);

  const provider = new Provider();
  assert.equal(await auth(provider, { serverUrl: tools, resourceMetadataUrl: new URL(metadata) }), "REDIRECT");
  assert.equal(provider.address.searchParams.get("resource"), tools.href);
  const back = new Promise((done) => { received = done; });
  const page = await open(provider.address);
  await page.getByRole("button", { name: "Allow" }).click();
  const answer = await back;
  assert.equal(answer.searchParams.get("state"), provider.given);
  assert.equal(answer.searchParams.get("iss"), root);
  assert.equal(await auth(provider, { serverUrl: tools, authorizationCode: answer.searchParams.get("code"), resourceMetadataUrl: new URL(metadata) }), "AUTHORIZED");
  assert.equal(provider.saved.scope, "mcp.invoke");
  await waitUntil("the token is valid", async () => (await ask(provider.saved.access_token)).status !== 401);
  for (const path of ["/v1/chat/completions", "/mcp/other", "/v1/auth/logout"]) {
    assert.equal((await ask(provider.saved.access_token, path)).status, 401, path);
  }

  const before = provider.saved;
  assert.equal(await auth(provider, { serverUrl: tools }), "AUTHORIZED"); // refreshes
  assert.notEqual(provider.saved.refresh_token, before.refresh_token);
  await waitUntil("the next token is valid", async () => (await ask(provider.saved.access_token)).status !== 401);

  const session = await call("POST", "/auth/login", { email: "tools@example.com", password }, "");
  const grants = await call("GET", "/auth/grants", undefined, session.token);
  assert.equal(grants.data.length, 1);
  await call("DELETE", `/auth/grants/${grants.data[0].id}`, undefined, session.token);
  await waitUntil("the token is refused", async () => (await ask(provider.saved.access_token)).status === 401);
  await assert.rejects(refreshAuthorization(root, {
    clientInformation: { client_id: clientID }, refreshToken: provider.saved.refresh_token, resource: tools,
    metadata: await (await fetch(root + "/.well-known/oauth-authorization-server")).json(),
  }), (error) => error.errorCode === "invalid_grant" || /invalid_grant|unknown or was replaced/.test(String(error)));
});

test("a person refuses, and the client learns of it", async () => {
  const provider = new Provider();
  await auth(provider, { serverUrl: tools });
  const back = new Promise((done) => { received = done; });
  const page = await open(provider.address);
  await page.getByRole("button", { name: "Deny" }).click();
  const answer = await back;
  assert.equal(answer.searchParams.get("error"), "access_denied");
  assert.equal(answer.searchParams.get("state"), provider.given);
});

test("another address is not called, and no page frames the question", async () => {
  const provider = new Provider();
  await auth(provider, { serverUrl: tools });
  const forged = new URL(provider.address);
  forged.searchParams.set("redirect_uri", "https://evil.example/callback");
  const page = await (await browser.newContext()).newPage();
  await page.goto(forged.href);
  await page.getByLabel("E-mail address").fill("tools@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByText("is not one of those of the client").waitFor();
  assert.equal(await page.getByRole("button", { name: "Allow" }).isVisible(), false);
  assert.equal(new URL(page.url()).origin, new URL(root).origin);
  const frame = await (await browser.newContext()).newPage();
  await frame.goto(callback.replace("/callback", "/"));
  await frame.evaluate((address) => {
    const f = document.createElement("iframe");
    f.src = address;
    document.body.append(f);
    return new Promise((done) => { f.onload = done; });
  }, provider.address.href);
  assert.equal(await frame.frames()[1].evaluate(() => document.body.textContent.includes("Allow a client")).catch(() => false), false);
});
