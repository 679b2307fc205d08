"""Testers of SCIM servers against the built gateway; run by go test ./test/clients."""

import json
import os
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

URL, KEY = os.environ["GATEWAY_URL"], os.environ["GATEWAY_KEY"]
BASE = URL + "/scim/v2"
sys.dont_write_bytecode = True


def admin(method, path, body=None):
    request = urllib.request.Request(URL + path, method=method, data=json.dumps(body).encode() if body else None,
                                     headers={"x-gateway-api-key": KEY, "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


class Testers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = admin("POST", "/scim/tokens", {"name": "testers"})
        cls.token, cls.id = made["token"], made["id"]
        cls.addClassCleanup(admin, "DELETE", "/scim/tokens/" + cls.id)

    def test_every_announced_attribute_works(self):
        client = SyncSCIMClient(Client(base_url=BASE, headers={"Authorization": "Bearer " + self.token}))
        client.discover()
        results = list(check_server(client))
        failed = [f"{r.title}: {r.reason}" for r in results if r.status not in (Status.SUCCESS, Status.SKIPPED)]
        self.assertEqual(failed, [])
        self.assertGreater(len(results), 100)

    def probe(self, *options):
        command = os.path.join(os.path.dirname(sys.executable), "scim-sanity")
        done = subprocess.run([command, "probe", BASE, "--token", self.token, "--i-accept-side-effects", "--json-output", *options],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_lifecycles_conform(self):
        self.probe("--strict")

    def test_lifecycles_with_what_entra_adds_conform(self):
        self.probe("--strict", "--profile", "entra")


class OktaCases(unittest.TestCase):
    """The cases of Okta's suite for new integrations: https://github.com/okta/okta-scim-beta (SCIM tests for Runscope)."""

    @classmethod
    def setUpClass(cls):
        made = admin("POST", "/scim/tokens", {"name": "cases"})
        cls.token = made["token"]
        cls.addClassCleanup(admin, "DELETE", "/scim/tokens/" + made["id"])
        cls.times = []

    def call(self, status, method, path, body=None):
        request = urllib.request.Request(BASE + path, method=method, data=json.dumps(body).encode() if body else None, headers={
            "Authorization": "Bearer " + self.token, "Content-Type": "application/scim+json; charset=utf-8", "Accept": "application/scim+json"})
        began = time.monotonic()
        try:
            answer = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read()
        self.times.append(time.monotonic() - began)
        self.assertEqual(answer.status, status, text)
        if text:
            self.assertEqual(answer.headers.get_content_type(), "application/scim+json")
        return json.loads(text) if text else None

    def listed(self, path):
        found = self.call(200, "GET", path)
        self.assertEqual(found["schemas"], ["urn:ietf:params:scim:api:messages:2.0:ListResponse"])
        for name in ("itemsPerPage", "startIndex", "totalResults"):
            self.assertIs(type(found[name]), int, name)
        return found

    def named(self, name):
        return self.listed("/Users?" + urllib.parse.urlencode({"filter": f'userName eq "{name}"'}))

    def test_cases(self):
        name = f"runscope-{time.time_ns()}@example.com"
        body = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": name, "active": True,
                "name": {"givenName": "Run", "familyName": "Scope"},
                "emails": [{"primary": True, "value": name, "type": "work"}], "displayName": "Run Scope", "externalId": name, "groups": []}
        self.assertEqual(self.named(name)["totalResults"], 0)
        made = self.call(201, "POST", "/Users", body)
        self.addCleanup(self.call, 204, "DELETE", "/Users/" + made["id"])
        self.assertIs(made["active"], True)
        self.assertEqual((made["userName"], made["name"]["familyName"], made["name"]["givenName"]), (name, "Scope", "Run"))
        self.assertIn("urn:ietf:params:scim:schemas:core:2.0:User", made["schemas"])

        page = self.listed("/Users?count=1&startIndex=1")
        self.assertGreaterEqual(page["totalResults"], 1)
        user = page["Resources"][0]
        for field in ("id", "name", "userName", "active", "emails"):
            self.assertIn(field, user)
        self.assertEqual(self.call(200, "GET", "/Users/" + user["id"])["userName"], user["userName"])
        self.assertEqual(self.listed("/Users?startIndex=1&count=2")["startIndex"], 1)
        self.listed("/Groups?startIndex=1&count=100")

        for spelled in (name, name.upper()):
            found = self.named(spelled)
            self.assertEqual([u["id"] for u in found["Resources"]], [made["id"]])
            refused = self.call(409, "POST", "/Users", {**body, "userName": spelled})
            self.assertEqual((refused["schemas"], refused["status"]), (["urn:ietf:params:scim:api:messages:2.0:Error"], "409"))
        read = self.call(200, "GET", "/Users/" + made["id"])
        self.assertEqual((read["userName"], read["name"]["familyName"], read["name"]["givenName"]), (name, "Scope", "Run"))
        unknown = self.call(404, "GET", "/Users/010101001010101011001010101011")
        self.assertEqual(unknown["schemas"], ["urn:ietf:params:scim:api:messages:2.0:Error"])
        self.assertTrue(unknown["detail"])
        self.assertLess(sorted(self.times)[len(self.times) // 2], 0.6)  # seconds; the suite's limit for each


if __name__ == "__main__":
    unittest.main()
