// A person signs in to a tool server in a real browser: the server is made with the official MCP
// library, its authorization server is oidc-provider, which is certified for OpenID Connect, and the
// client is the library's. The gateway is one node, or several behind one address.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitationCompleteNotificationSchema, UrlElicitationRequiredError } from "@modelcontextprotocol/sdk/types.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import Provider from "oidc-provider";
import { chromium } from "playwright-core";
import { administrator } from "./gateway.mjs";

// People know the gateway as localhost, and the authorization server is at 127.0.0.1: for browsers
// the two are different sites.
const gatewayURL = process.env.PEOPLE_URL.replace("127.0.0.1", "localhost");
const root = gatewayURL.replace(/\/v1$/, "");
const password = "a long password of a test";
const administer = administrator(gatewayURL);
const server = createServer();
const events = { grants: [], revoked: [] };
const calls = []; // the tokens with which the tool was called
const clients = [];
let browser, issuer, oidc;

async function person(name) {
  const { invite_link: link } = await administer("POST", "/admin/users/invites", {
    email: `${name}@example.com`, role: "member", workspaces: [{ id: "default", role: "member" }],
  });
  const accepted = await fetch(gatewayURL + "/auth/invites/accept", {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ token: new URL(link, root).searchParams.get("token"), password }),
  });
  assert.equal(accepted.status, 200);
  const me = await fetch(gatewayURL + "/auth/me", { headers: { authorization: `Bearer ${(await accepted.json()).token}` } });
  const { user_id: id } = await me.json();
  const { key } = await administer("POST", "/api-keys/workspace/user", { name, workspace_id: "default", user_id: id, scopes: ["mcp.invoke"] });
  await waitUntil(`the key of ${name} is valid`, async () =>
    (await fetch(root + "/mcp", { method: "POST", headers: { "x-gateway-api-key": key }, body: "{}" })).status !== 401);
  return { name, id, key };
}

// waitUntil waits for a node to know of a change.
async function waitUntil(what, holds) {
  for (let i = 0; i < 600; i++) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`never: ${what}`);
}

// serveTool is a tool server that wants a token for its own address.
async function serveTool(request, response) {
  const address = issuer + "/mcp";
  if (request.url === "/.well-known/oauth-protected-resource/mcp") {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ resource: address, authorization_servers: [issuer], scopes_supported: ["notes.read"] }));
    return;
  }
  const text = (request.headers.authorization ?? "").replace(/^Bearer /, "");
  const token = text && await oidc.AccessToken.find(text);
  if (!token || token.aud !== address || !token.scope.split(" ").includes("notes.read")) {
    response.setHeader("www-authenticate", `Bearer resource_metadata="${issuer}/.well-known/oauth-protected-resource/mcp"`);
    response.statusCode = 401;
    response.end();
    return;
  }
  const mcp = new McpServer({ name: "notes", version: "1" });
  mcp.registerTool("whoami", { description: "Says who calls" }, () => {
    calls.push(text);
    return { content: [{ type: "text", text: "you are " + token.accountId }] };
  });
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on("close", () => { transport.close(); mcp.close(); });
  await mcp.connect(transport);
  await transport.handleRequest(request, response);
}

before(async () => {
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  issuer = `http://127.0.0.1:${server.address().port}`;
  oidc = new Provider(issuer, {
    features: {
      devInteractions: { enabled: true }, registration: { enabled: true }, revocation: { enabled: true },
      resourceIndicators: {
        enabled: true, useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({ scope: "notes.read", audience: resource, accessTokenTTL: 3600, accessTokenFormat: "opaque" }),
      },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    cookies: { keys: ["a key of the cookies"] },
    fetch: (address, { signal, method, body, headers }) => fetch(address, { signal, method, body, headers }), // its own reaches no loopback
  });
  oidc.on("grant.success", (ctx) => events.grants.push(ctx.oidc.params.grant_type));
  oidc.on("grant.revoked", (_, id) => events.revoked.push(id));
  const authorize = oidc.callback();
  server.on("request", (request, response) => {
    const tool = ["/mcp", "/.well-known/oauth-protected-resource/mcp"].includes(request.url);
    if (!tool) return authorize(request, response);
    return serveTool(request, response).catch((error) => { console.error(error); response.destroy(); });
  });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
  await administer("POST", "/mcp-integrations", { name: "Notes", slug: "notes", url: issuer + "/mcp", transport: "http", auth_type: "oauth_auto" });
  await administer("PUT", "/mcp-integrations/notes/workspaces", { global_workspace_access: { enabled: true } });
  await administer("POST", "/mcp-servers", { name: "Notes", slug: "notes", mcp_integration_id: "notes", workspace_id: "default" });
});

after(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => {})));
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

// connect returns a client with the key of a person, once its stream is open.
async function connect(who, capabilities) {
  const client = new Client({ name: "agent", version: "1" }, { capabilities });
  let streaming = false;
  const transport = new StreamableHTTPClientTransport(new URL(root + "/notes/mcp"), {
    requestInit: { headers: { "x-gateway-api-key": who.key } },
    fetch: async (address, init) => {
      const response = await fetch(address, init);
      streaming ||= (init?.method ?? "GET") === "GET" && response.ok;
      return response;
    },
  });
  clients.push(client);
  await client.connect(transport);
  await waitUntil("the stream is open", () => streaming);
  return client;
}

const whoami = (client) => client.callTool({ name: "whoami", arguments: {} });

// linkFor returns the address that a client which shows no pages gets.
async function linkFor(client) {
  const result = await whoami(client);
  assert.equal(result.isError, true, JSON.stringify(result));
  return /http\S+\/oauth\/connect\?link=[^\s"]+/.exec(result.content[0].text)[0].replace("127.0.0.1", "localhost");
}

// open opens a link in a browser that nobody has signed in with, and signs in to the gateway.
async function open(link, who) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(link);
  await page.getByLabel("E-mail address").fill(`${who.name}@example.com`);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  return page;
}

// signIn continues to the authorization server, signs in there, and comes back.
async function signIn(page, account) {
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator("input[name=login]").fill(account);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await page.getByText("notes.read", { exact: true }).waitFor();
  await page.locator("button[type=submit]").click(); // consent
  await page.getByText("You are signed in. You can close this page").waitFor();
  assert.equal(new URL(page.url()).origin, root);
  assert.equal(new URL(page.url()).search, ""); // the code is not left in the address
}

// worked waits until calls work, which the other node learns a little later.
async function worked(client) {
  let result;
  await waitUntil("the call works", async () => (result = await whoami(client)).isError !== true);
  return result.content[0].text;
}

test("a call asks for a sign-in, the browser signs in, and the next calls have the token of the person", async () => {
  const ann = await person("ann"), bob = await person("bob");
  const client = await connect(ann, {}), other = await connect(bob, {});
  const link = await linkFor(client);

  const stolen = await open(link, bob);
  await stolen.getByText("this link is for another person").waitFor();
  assert.equal(await stolen.getByRole("button", { name: "Continue" }).isVisible(), false);
  for (const [method, path, body] of [["GET", "/auth/tool-sign-in?" + new URL(link).searchParams], ["POST", "/auth/tool-sign-in", { link: new URL(link).searchParams.get("link") }]]) {
    const status = await stolen.evaluate(async ([address, method, body]) => (await fetch(address, {
      method, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body),
    })).status, ["/v1" + path, method, body]);
    assert.equal(status, 403, `${method} ${path}`);
  }

  const page = await open(link, ann);
  await page.getByText("ann@example.com").waitFor();
  await signIn(page, "ann-at-notes");
  assert.equal(await worked(client), "you are ann-at-notes");
  const first = calls.at(-1);
  assert.equal((await oidc.AccessToken.find(first)).accountId, "ann-at-notes");
  assert.notEqual(first, ann.key);
  await linkFor(other); // another person has not signed in
  const used = await open(link, ann);
  await used.getByRole("button", { name: "Continue" }).click();
  await used.getByText("this link was used before").waitFor();

  for (let renewals = 1; renewals <= 2; renewals++) { // the second one uses the refresh token of the first
    const before = calls.at(-1);
    await (await oidc.AccessToken.find(before)).destroy();
    assert.equal(await worked(client), "you are ann-at-notes"); // the other node may not know of the sign-in yet
    assert.notEqual(calls.at(-1), before);
    assert.deepEqual(events.grants, ["authorization_code", ...Array(renewals).fill("refresh_token")]);
  }

  const last = calls.at(-1);
  assert.deepEqual(events.revoked, []);
  await administer("DELETE", `/mcp-servers/notes/connections?workspace_id=default&user_id=${ann.id}`);
  await waitUntil("the authorization server has ended the grant", () => events.revoked.length === 1);
  assert.equal(await oidc.AccessToken.find(last), undefined);
  await waitUntil("the person has to sign in again", async () => (await whoami(client)).isError === true);
});

test("a client that shows pages gets the address as an error, and learns when its person has signed in", async () => {
  if (process.env.PEOPLE_NODES > 1) assert.equal((await fetch(`${root}/cluster?node=0`, { method: "POST" })).status, 200); // which has its stream
  const eve = await person("eve");
  const client = await connect(eve, { elicitation: { url: {} } });
  const completed = new Promise((done) => client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => done(params.elicitationId)));
  let asked;
  await assert.rejects(whoami(client), (error) => {
    asked = error;
    return error instanceof UrlElicitationRequiredError && error.code === -32042 && error.elicitations.length === 1;
  });
  const [{ url, elicitationId, mode }] = asked.elicitations;
  assert.equal(mode, "url");
  const page = await open(url.replace("127.0.0.1", "localhost"), eve);
  await signIn(page, "eve-at-notes");
  assert.equal(await completed, elicitationId);
  assert.equal((await whoami(client)).content[0].text, "you are eve-at-notes");

  const last = calls.at(-1), revoked = events.revoked.length;
  await administer("DELETE", "/mcp-servers/notes?workspace_id=default");
  await waitUntil("the authorization server has ended the grant", () => events.revoked.length > revoked);
  assert.equal(await oidc.AccessToken.find(last), undefined);
});
