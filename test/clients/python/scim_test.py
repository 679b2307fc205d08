"""Testers of SCIM servers against the built gateway; run by go test ./test/clients."""

import json
import os
import subprocess
import sys
import unittest
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


if __name__ == "__main__":
    unittest.main()
