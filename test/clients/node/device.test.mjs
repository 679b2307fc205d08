// An independent client runs the device flow, and a real browser approves it: openid-client and
// Chromium.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as client from "openid-client";
import { chromium } from "playwright-core";
import { gatewayKey } from "./gateway.mjs";

const gatewayURL = process.env.PEOPLE_URL;
const root = gatewayURL.replace(/\/v1$/, "");
const password = "a long password of a test";
let browser;

async function call(method, path, body, key = gatewayKey) {
  const answer = await fetch(gatewayURL + path, {
    method, headers: { ...(key && { "x-gateway-api-key": key }), "content-type": "application/json" }, body: body && JSON.stringify(body),
  });
  const result = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(result));
  return result;
}

before(async () => {
  const { invite_link: link } = await call("POST", "/admin/users/invites", { email: "device@example.com", role: "member", workspaces: [] });
  await call("POST", "/auth/invites/accept", { token: new URL(link, root).searchParams.get("token"), password }, "");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});

after(() => browser?.close());

// begin begins a sign-in as the standard client does: all addresses are from the metadata.
async function begin() {
  const server = await client.discovery(new URL(root), "modelgate-cli", undefined, client.None(), {
    algorithm: "oauth2", execute: [client.allowInsecureRequests],
  });
  return [server, await client.initiateDeviceAuthorization(server, { device_name: "a laptop" })];
}

// open opens a page and signs in if it asks for that.
async function open(address) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(address);
  await page.getByLabel("E-mail address").fill("device@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  return page;
}

test("a person approves in a browser, and openid-client gets a session", async () => {
  const [server, device] = await begin();
  const polling = client.pollDeviceAuthorizationGrant(server, device);
  const page = await open(device.verification_uri_complete);
  await page.getByText("a laptop").waitFor();
  await page.getByText("device@example.com").waitFor();
  await page.getByText(device.user_code).waitFor();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved.").waitFor();
  const tokens = await polling;
  const me = await call("GET", "/auth/me", undefined, tokens.access_token);
  assert.equal(me.email, "device@example.com");
  const sessions = await call("GET", "/auth/sessions", undefined, tokens.access_token);
  assert.ok(sessions.data.some((s) => s.method === "device" && s.current));
});

test("a person who enters the code by hand denies it", async () => {
  const [server, device] = await begin();
  const page = await open(device.verification_uri);
  await page.getByLabel("Code that your command line shows").fill(device.user_code.toLowerCase().replace("-", " "));
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByText("Denied.").waitFor();
  await assert.rejects(client.pollDeviceAuthorizationGrant(server, device), (error) => error.error === "access_denied");
});
