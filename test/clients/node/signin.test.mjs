// A real browser signs in at a real identity provider: Chromium, and oidc-provider, which is
// certified for OpenID Connect. The gateway is one node, or several behind one address.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import Provider from "oidc-provider";
import { chromium } from "playwright-core";
import { administrator } from "./gateway.mjs";

const gatewayURL = process.env.PEOPLE_URL; // its organisation has proved that example.com is its own
const root = gatewayURL.replace(/\/v1$/, "");
const last = Number(process.env.PEOPLE_NODES) - 1; // the other node, or the only one
const within = 2000; // ms in which what ends on one node ends on all
const server = createServer();
let browser, issuer, provider;

const administer = administrator(gatewayURL);

// use chooses the node to which requests go.
async function use(node) {
  if (last > 0) assert.equal((await fetch(`${root}/cluster?node=${node}`, { method: "POST" })).status, 200);
}

// get requests a path as the page of a person does, and returns the status.
const get = (page, path) => page.evaluate(async (address) => (await fetch(address)).status, "/v1" + path);

// refused waits until a path is refused, and returns how many milliseconds that took.
async function refused(page, path, status) {
  const began = Date.now();
  for (let got; (got = await get(page, path)) !== status;) assert.ok(Date.now() - began < 5 * within, `${path}: ${got}`);
  return Date.now() - began;
}

before(async () => {
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  issuer = `http://127.0.0.1:${server.address().port}`;
  provider = await administer("POST", "/identity-providers", {
    name: "Example", issuer, client_id: "gateway", client_secret: "a secret of the client", domains: ["example.com"], groups_claim: "groups",
  });
  const oidc = new Provider(issuer, {
    clients: [{
      client_id: "gateway", client_secret: "a secret of the client", redirect_uris: [provider.redirect_uri],
      post_logout_redirect_uris: [root + "/login"], backchannel_logout_uri: provider.backchannel_logout_uri, backchannel_logout_session_required: true,
      grant_types: ["authorization_code", "refresh_token"],
    }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["given_name", "family_name"] },
    features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: id !== "mallory", given_name: "Ada", family_name: "Lovelace" }),
    }),
    cookies: { keys: ["a key of the cookies"] },
    fetch: (address, { signal, method, body, headers }) => fetch(address, { signal, method, body, headers }), // its own reaches no loopback
  });
  oidc.on("backchannel.error", (_, error) => console.error("back-channel logout:", error)); // shown when a case fails
  server.on("request", oidc.callback());
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});

after(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

// signIn signs in on the page of the gateway, and returns the page at the end. It begins at
// the first node and returns at the last, which then gets the requests.
async function signIn(context, name) {
  await use(0);
  const page = await context.newPage();
  await page.goto(root + "/login");
  await page.getByRole("link", { name: "Sign in with Example" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await use(last);
  await page.locator("button[type=submit]").click(); // consent
  return page;
}

test("a person signs in, and signs out here and at the provider", async () => {
  const context = await browser.newContext();
  const page = await signIn(context, "ada");
  await page.getByText("You are signed in as ada@example.com, member of").waitFor();
  const cookies = (await context.cookies(root)).filter((k) => k.name.startsWith("mg_"));
  assert.deepEqual(cookies.map((k) => [k.name, k.httpOnly, k.sameSite]), [["mg_login", true, "Strict"]]);
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: /sign me out/i }).click();
  await page.getByRole("link", { name: "Sign in with Example" }).waitFor();
  await context.close();
});

test("a session ends when the provider ends its own", async () => {
  const context = await browser.newContext();
  const page = await signIn(context, "grace");
  await page.getByText("You are signed in as grace@example.com").waitFor();
  assert.equal(await get(page, "/auth/me"), 200);
  await use(0);
  const other = await context.newPage();
  await other.goto(issuer + "/session/end");
  await other.getByRole("button", { name: /sign me out/i }).click();
  await other.getByText(/sign-out success/i).waitFor();
  await use(last);
  assert.ok((await refused(page, "/auth/me", 401)) < within);
  await page.reload();
  await page.getByRole("link", { name: "Sign in with Example" }).waitFor();
  await context.close();
});

test("a role ends when the directory takes the person out of its group", async () => {
  await use(0);
  const { token } = await administer("POST", "/scim/tokens", { name: "directory" });
  const scim = async (method, path, body) => {
    const answer = await fetch(`${gatewayURL}/scim/v2${path}`, {
      method, headers: { authorization: "Bearer " + token, "content-type": "application/scim+json" }, body: JSON.stringify(body),
    });
    assert.ok(answer.ok, await answer.clone().text());
    return answer.json();
  };
  const user = await scim("POST", "/Users", { userName: "rosa@example.com" });
  const group = await scim("POST", "/Groups", { displayName: "ws-default-role-admin", members: [{ value: user.id }] });
  const context = await browser.newContext();
  const page = await signIn(context, "rosa");
  await page.getByText("You are signed in as rosa@example.com").waitFor();
  const path = "/workspaces/default/users";
  assert.equal(await get(page, path), 200);
  await use(0);
  await scim("PATCH", "/Groups/" + group.id, { Operations: [{ op: "remove", path: `members[value eq "${user.id}"]` }] });
  await use(last);
  assert.ok((await refused(page, path, 404)) < within);
  assert.equal(await get(page, "/auth/me"), 200);
  await context.close();
});

test("an address that the provider does not vouch for makes no member", async () => {
  const context = await browser.newContext();
  const page = await signIn(context, "mallory");
  await page.getByText("you are not a member here").waitFor();
  assert.equal((await context.cookies(root)).some((k) => k.name === "mg_login"), false);
  await context.close();
});

test("a test walks the sign-in and signs nobody in", async () => {
  const result = await administer("POST", `/identity-providers/${provider.id}/test`);
  assert.equal(result.ok, true, JSON.stringify(result.steps));
  for (const name of ["discovery", "keys", "clock", "authorization", "client"]) {
    assert.equal(result.steps.find((s) => s.name === name)?.outcome, "ok", JSON.stringify(result.steps));
  }
  await administer("PUT", `/identity-providers/${provider.id}`, { client_secret: "another secret" });
  const wrong = await administer("POST", `/identity-providers/${provider.id}/test`);
  assert.equal(wrong.steps.find((s) => s.name === "client").outcome, "failed");
  await administer("PUT", `/identity-providers/${provider.id}`, { client_secret: "a secret of the client" });
});
