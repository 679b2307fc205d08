// A real browser signs in with SAML: Chromium, and samlify, another implementation with
// another XML parser. The provider is on another site than the gateway (localhost, not
// 127.0.0.1), so that cookies are held back as they are on the internet.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import samlify from "samlify";
import { administrator } from "./gateway.mjs";

const gatewayURL = process.env.PEOPLE_URL; // its organisation has proved that example.com is its own
const root = gatewayURL.replace(/\/v1$/, "");
const server = createServer((req, res) => serve(req, res).catch((error) => res.writeHead(500).end(String(error))));
let browser, issuer, provider, idp, sp;
let signedIn; // { name, session } at the provider
let answered; // the gateway's last response to a logout request
samlify.setSchemaValidator({ validate: async () => "not validated" });

const administer = administrator(gatewayURL);

const bindings = "urn:oasis:names:tc:SAML:2.0:bindings:";
const services = (path, names) => names.map((name) => ({ Binding: bindings + name, Location: issuer + path }));

// newProvider returns the provider with the bindings that its metadata names.
function newProvider(...names) {
  return samlify.IdentityProvider({
    entityID: issuer + "/metadata", privateKey: readFileSync(process.env.IDP_KEY, "utf8"), signingCert: readFileSync(process.env.IDP_CERTIFICATE, "utf8"),
    wantAuthnRequestsSigned: true, wantLogoutRequestSigned: true, wantLogoutResponseSigned: true,
    singleSignOnService: services("/sso", names), singleLogoutService: services("/slo", names),
    loginResponseTemplate: {
      context: samlify.SamlLib.defaultLoginResponseTemplate.context.replace("{AuthnStatement}",
        '<saml:AuthnStatement AuthnInstant="{IssueInstant}" SessionIndex="{Session}"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>'),
      attributes: [{ name: "email", valueTag: "user.email", nameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:basic", valueXsiType: "xs:string" }],
    },
  });
}

async function formOf(req) {
  let text = "";
  for await (const part of req) text += part;
  return new URLSearchParams(text);
}

function send(res, html) {
  res.writeHead(200, { "content-type": "text/html" }).end(html);
}

// sendForm sends a page that posts a message to the gateway.
function sendForm(res, { entityEndpoint, type, context, relayState }) {
  send(res, `<form method="post" action="${entityEndpoint}"><input type="hidden" name="${type}" value="${context}">` +
    `<input type="hidden" name="RelayState" value="${relayState ?? ""}"></form><script>document.forms[0].submit()</script>`);
}

// message returns how a request carries its message, as samlify takes it.
async function message(req) {
  if (req.method === "POST") {
    const form = await formOf(req);
    return ["post", { body: Object.fromEntries(form) }, form];
  }
  const raw = req.url.split("?")[1];
  const query = new URLSearchParams(raw);
  return ["redirect", { query: Object.fromEntries(query), octetString: raw.split("&Signature=")[0] }, query];
}

async function serve(req, res) {
  switch (req.url.split("?")[0]) {
    case "/sso": {
      const [binding, request, values] = await message(req);
      if (values.has("login")) { // the provider's own page
        const state = JSON.parse(values.get("state"));
        signedIn = { name: values.get("login"), session: "_session-" + values.get("login") };
        return sendForm(res, await respond(state));
      }
      const { extract } = await idp.parseLoginRequest(sp, binding, request);
      const state = JSON.stringify({ id: extract.request.id, relay: values.get("RelayState") });
      return send(res, `<form method="post" action="/sso"><input name="login"><input type="hidden" name="state" value='${state}'><button>Log in</button></form>`);
    }
    case "/slo": {
      const [binding, request, values] = await message(req);
      if (values.has("SAMLResponse")) {
        answered = (await idp.parseLogoutResponse(sp, binding, request)).extract;
        return send(res, "You are logged out everywhere");
      }
      const { extract } = await idp.parseLogoutRequest(sp, binding, request);
      assert.equal(extract.nameID, signedIn.name);
      signedIn = undefined;
      const relayState = values.get("RelayState") ?? "";
      const response = idp.createLogoutResponse(sp, { extract }, binding, { relayState });
      return binding === "post" ? sendForm(res, response) : res.writeHead(302, { location: response.context }).end();
    }
    case "/end": { // begins to log out at the provider
      const binding = new URL(req.url, issuer).searchParams.get("binding");
      const request = idp.createLogoutRequest(sp, binding, { logoutNameID: signedIn.name, sessionIndex: signedIn.session }, { relayState: "left" });
      return binding === "post" ? sendForm(res, request) : res.writeHead(302, { location: request.context }).end();
    }
  }
  res.writeHead(404).end();
}

async function respond({ id, relay }) {
  const user = { email: `${signedIn.name}@example.com` };
  const now = new Date();
  const end = new Date(now.getTime() + 300_000).toISOString();
  const acs = provider.redirect_uri;
  const fill = (template) => {
    const response = "_" + crypto.randomUUID();
    return { id: response, context: samlify.SamlLib.replaceTagsByValue(template, {
      ID: response, AssertionID: "_" + crypto.randomUUID(), Destination: acs, Audience: provider.entity_id, SubjectRecipient: acs,
      NameIDFormat: "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", NameID: signedIn.name, Issuer: issuer + "/metadata",
      IssueInstant: now.toISOString(), ConditionsNotBefore: now.toISOString(), ConditionsNotOnOrAfter: end, SubjectConfirmationDataNotOnOrAfter: end,
      StatusCode: "urn:oasis:names:tc:SAML:2.0:status:Success", InResponseTo: id, Session: signedIn.session, attrUserEmail: user.email,
    }) };
  };
  const { context } = await idp.createLoginResponse(sp, { extract: { request: { id } } }, "post", user, fill);
  return { entityEndpoint: acs, type: "SAMLResponse", context, relayState: relay };
}

before(async () => {
  await new Promise((listening) => server.listen(0, "localhost", listening));
  issuer = `http://localhost:${server.address().port}`;
  idp = newProvider("HTTP-Redirect", "HTTP-POST");
  provider = await administer("POST", "/identity-providers", { name: "Company", type: "saml", metadata: idp.getMetadata(), domains: ["example.com"] });
  const metadata = await fetch(provider.entity_id);
  assert.equal(metadata.status, 200);
  sp = samlify.ServiceProvider({ metadata: await metadata.text(), wantLogoutRequestSigned: true, wantLogoutResponseSigned: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});

after(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

// signIn signs in on the page of the gateway, and returns the page at the end.
async function signIn(context, name) {
  const page = await context.newPage();
  await page.goto(root + "/login");
  await page.getByRole("link", { name: "Sign in with Company" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("button").click();
  await page.getByText(`You are signed in as ${name}@example.com, member of`).waitFor();
  return page;
}

test("a person signs in, and signs out here and at the provider", async () => {
  const context = await browser.newContext();
  const page = await signIn(context, "joan");
  const cookies = (await context.cookies(root)).filter((k) => k.name.startsWith("mg_"));
  assert.deepEqual(cookies.map((k) => [k.name, k.httpOnly, k.sameSite]), [["mg_login", true, "Strict"]]);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "Sign in with Company" }).waitFor();
  assert.equal(signedIn, undefined, "the provider was not asked to end its session");
  await context.close();
});

for (const binding of ["redirect", "post"]) {
  test(`a session ends when the provider ends its own, by ${binding}`, async () => {
    const context = await browser.newContext();
    const page = await signIn(context, "joan");
    answered = undefined;
    const other = await context.newPage();
    await other.goto(`${issuer}/end?binding=${binding}`);
    await other.getByText("You are logged out everywhere").waitFor();
    assert.equal(answered.issuer, provider.entity_id);
    await page.reload();
    await page.getByRole("link", { name: "Sign in with Company" }).waitFor();
    await context.close();
  });
}

test("a provider without redirects is reached by forms", async () => {
  idp = newProvider("HTTP-POST");
  await administer("PUT", `/identity-providers/${provider.id}`, { metadata: idp.getMetadata() });
  const context = await browser.newContext();
  const page = await signIn(context, "joan");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "Sign in with Company" }).waitFor();
  assert.equal(signedIn, undefined, "the provider was not asked to end its session");
  await context.close();
});

test("the last assertion is shown by the names of its attributes", async () => {
  const item = await administer("GET", `/identity-providers/${provider.id}`);
  assert.deepEqual(item.last_assertion.attribute_names, ["email"]);
});
