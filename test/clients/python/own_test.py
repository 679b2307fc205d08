"""The Python client against the built gateway; run by go test ./test/clients."""

import json
import os
import sys
import unittest
import urllib.parse
import urllib.request
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "clients", "python"))
sys.dont_write_bytecode = True

from modelgate import Modelgate, ModelgateError, headers  # noqa: E402

URL, KEY, BOOKS = os.environ["GATEWAY_URL"], os.environ["GATEWAY_KEY"], os.environ["BOOKS_URL"]


def own(**options):
    return Modelgate(base_url=URL, api_key=KEY, timeout=20, **options)


def seen(text):
    with urllib.request.urlopen(BOOKS + "/?mark=" + urllib.parse.quote(text), timeout=20) as answer:
        return json.load(answer)


def mark(about):
    return f"{about} {uuid.uuid4()}"


def user(text):
    return [{"role": "user", "content": text}]


class OwnClient(unittest.TestCase):
    def test_options_in_snake_case_are_the_gateways_headers(self):
        self.assertEqual(
            headers(api_key="k", config={"retry": {"attempts": 2}}, metadata={"team": "a"}, trace_id="t",
                    request_timeout=5, cache_force_refresh=True, cloud_a_access_key_id="a",
                    strict_vendora_compliance=False, authorization="sk", virtual_key=None,
                    forward_headers=["X-My-Custom-Header"], X_My_Custom_Header="mine"),
            {"authorization": "Bearer sk", "x-gateway-api-key": "k", "x-gateway-config": '{"retry":{"attempts":2}}',
             "x-gateway-metadata": '{"team":"a"}', "x-gateway-trace-id": "t", "x-gateway-request-timeout": "5",
             "x-gateway-cache-force-refresh": "true", "x-gateway-cloud-a-access-key-id": "a",
             "x-gateway-strict-vendora-compliance": "false", "X-My-Custom-Header": "mine",
             "x-gateway-forward-headers": "X-My-Custom-Header"})
        with self.assertRaises(ValueError):
            headers(trace_id="a\nx-evil: 1")

    def test_a_config_given_to_the_client_decides_who_is_called(self):
        question = mark("by config")
        config = {"strategy": {"mode": "single"}, "targets": [{"provider": "@sim", "override_params": {"temperature": 0.25}}]}
        answer = own(config=config).chat.completions.create(model="sim-1", messages=user(question))
        self.assertIn(question, answer["choices"][0]["message"]["content"])
        self.assertEqual(json.loads(seen(question)[0]["body"])["temperature"], 0.25)

    def test_a_forwarded_header_keeps_its_spelling(self):
        question = mark("forwarded")
        client = own(provider="@sim").with_options(forward_headers=["X-My-Custom-Header"], X_My_Custom_Header="mine")
        client.chat.completions.create(model="sim-1", messages=user(question))
        self.assertEqual(seen(question)[0]["headers"]["x-my-custom-header"], "mine")

    def test_a_stream_comes_chunk_by_chunk(self):
        question, text = mark("streamed"), ""
        for chunk in own(provider="@sim").chat.completions.create(model="sim-1", stream=True, messages=user(question)):
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
        self.assertIn(question, text)

    def test_an_error_answer_is_raised_with_its_status_and_body(self):
        with self.assertRaises(ModelgateError) as raised:
            own(provider="@nobody").chat.completions.create(model="m", messages=user("x"))
        self.assertEqual(raised.exception.status, 404)
        self.assertEqual(raised.exception.body["error"]["code"], "unknown_slug")
        self.assertTrue(raised.exception.headers["x-gateway-request-id"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
