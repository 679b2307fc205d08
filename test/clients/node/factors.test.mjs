// A real browser with a virtual authenticator adds second factors and signs in with them, on the
// page of the gateway. @simplewebauthn/server judges what the authenticator made, as a second
// opinion.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";
import { verifyRegistrationResponse } from "@simplewebauthn/server";
import { chromium } from "playwright-core";
import { administrator } from "./gateway.mjs";

const gatewayURL = process.env.FACTORS_URL;
const root = gatewayURL.replace(/\/v1$/, "").replace("127.0.0.1", "localhost"); // passkeys need the name of a host
const password = "correct horse battery";
let browser;

const administer = administrator(gatewayURL);

// member makes a member with a password.
async function member(name) {
  const invite = await administer("POST", "/admin/users/invites", {
    email: `${name}@example.net`, role: "member", workspaces: [{ id: "default", role: "member" }],
  });
  const token = new URL(invite.invite_link ?? invite.link, root).searchParams.get("token");
  const answer = await fetch(gatewayURL + "/auth/invites/accept", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token, password }),
  });
  assert.equal(answer.status, 200, await answer.text());
}

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});

after(() => browser?.close());

// open returns a page with a virtual authenticator.
async function open(options = {}) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const device = await context.newCDPSession(page);
  await device.send("WebAuthn.enable");
  const { authenticatorId } = await device.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
      automaticPresenceSimulation: true, ...options,
    },
  });
  await page.goto(root + "/login");
  return { context, page, device, authenticatorId };
}

async function signIn(page, name) {
  await page.locator("input[name=email]").fill(`${name}@example.net`);
  await page.locator("input[name=password]").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

async function signOut(page) {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.locator("input[name=email]").waitFor();
}

// addPasskey adds a passkey, and returns the recovery codes.
async function addPasskey(page) {
  await page.getByRole("button", { name: "Add a passkey" }).click();
  await page.locator("#codes").filter({ hasText: "-" }).waitFor();
  const codes = (await page.locator("#codes").textContent()).split("\n");
  await page.getByRole("button", { name: "I have kept them" }).click();
  return codes;
}

// code returns the one-time code of a secret (RFC 6238), some steps from now.
function code(secret, steps = 0) {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret].map((c) => letters.indexOf(c).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + steps));
  const sum = createHmac("sha1", key).update(counter).digest();
  return String((sum.readUInt32BE(sum.at(-1) & 15) & 0x7fffffff) % 1e6).padStart(6, "0");
}

test("a passkey signs in alone, and as a second factor", async () => {
  await member("passkeys");
  const { context, page, device, authenticatorId } = await open();
  await signIn(page, "passkeys");
  await page.getByText("You are signed in as passkeys@example.net").waitFor();
  const made = page.waitForRequest((r) => r.url().endsWith("/v1/auth/passkeys") && r.method() === "POST");
  const asked = page.waitForResponse((r) => r.url().endsWith("/v1/auth/passkeys/options"));
  const codes = await addPasskey(page);
  assert.equal(codes.length, 10);
  const { options } = await (await asked).json();
  const verdict = await verifyRegistrationResponse({
    response: (await made).postDataJSON().passkey, expectedChallenge: options.challenge, expectedOrigin: root, expectedRPID: "localhost",
  });
  assert.equal(verdict.verified, true);
  assert.equal(verdict.registrationInfo.userVerified, true);
  const { credentials } = await device.send("WebAuthn.getCredentials", { authenticatorId });
  assert.equal(credentials.length, 1);
  assert.equal(credentials[0].rpId, "localhost");
  assert.equal(Buffer.from(credentials[0].userHandle, "base64").length, 64);

  await signOut(page);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByText("You are signed in as passkeys@example.net").waitFor();

  await signOut(page);
  await signIn(page, "passkeys");
  await page.getByText("Your sign-in is not complete.").waitFor();
  const pending = (await context.cookies(root)).find((k) => k.name === "mg_login").value;
  await page.getByRole("button", { name: "Use your passkey" }).click();
  await page.getByText("You are signed in as passkeys@example.net").waitFor();
  assert.notEqual((await context.cookies(root)).find((k) => k.name === "mg_login").value, pending);
  assert.equal((await context.cookies(root)).some((k) => k.name.endsWith("mg_passkey")), false);

  await signOut(page);
  await signIn(page, "passkeys");
  await page.locator("input[name=value]").fill(codes[0].toUpperCase());
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("You are signed in as passkeys@example.net").waitFor();
  await context.close();
});

test("an authenticator without user verification is a second factor only", async () => {
  await member("presence");
  const { context, page } = await open({ hasUserVerification: false, isUserVerified: false, hasResidentKey: false });
  await signIn(page, "presence");
  await addPasskey(page);
  await signOut(page);
  await signIn(page, "presence");
  await page.getByRole("button", { name: "Use your passkey" }).click();
  await page.getByText("You are signed in as presence@example.net").waitFor();
  await context.close();
});

test("an app for one-time codes completes a sign-in, and a wrong code does not", async () => {
  await member("codes");
  const { context, page } = await open();
  await signIn(page, "codes");
  await page.getByRole("button", { name: "Add an app for one-time codes" }).click();
  await page.locator("#key").filter({ hasText: /^[A-Z2-7]{32}$/ }).waitFor();
  const secret = await page.locator("#key").textContent();
  assert.match(await page.locator("#uri").getAttribute("href"), /^otpauth:\/\/totp\/.*codes@example\.net/);
  await page.locator("input[name=code]").fill(code(secret));
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("button", { name: "I have kept them" }).click();
  await signOut(page);
  await signIn(page, "codes");
  const wrong = ["000000", "111111", "222222", "333333"].find((c) => ![-1, 0, 1].some((n) => code(secret, n) === c));
  await page.locator("input[name=value]").fill(wrong);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("the code is wrong, or was used before").waitFor();
  await page.locator("input[name=value]").fill(code(secret, 1)); // of the next step, since this one is used up
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("You are signed in as codes@example.net").waitFor();
  await context.close();
});

test("a member is led to add a factor that the organisation requires", async () => {
  await member("required");
  await administer("PUT", "/admin/organisation", { settings: { require_second_factor: true } });
  try {
    const { context, page } = await open();
    await signIn(page, "required");
    await page.getByText("Your organisation requires a second factor.").waitFor();
    await addPasskey(page);
    await page.getByText("You are signed in as required@example.net").waitFor();
    await context.close();
  } finally {
    await administer("PUT", "/admin/organisation", { settings: { require_second_factor: false } });
  }
});
