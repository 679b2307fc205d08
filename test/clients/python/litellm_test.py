"""LiteLLM as a client of the built gateway; run by go test ./test/clients.

It runs in an environment of its own, since it needs an older version of another
library.
"""

import faulthandler
import json
import os
import unittest
import uuid

# A hang says where it is, before the test is killed without a word.
faulthandler.dump_traceback_later(240, exit=True)
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402

URL, KEY = os.environ["GATEWAY_URL"], os.environ["GATEWAY_KEY"]
ROOT = URL.removesuffix("/v1")
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


class LiteLLM(unittest.TestCase):
    def work(self, model, base):
        ask = lambda messages, **more: litellm.completion(  # noqa: E731
            model=model, messages=messages, api_base=base, api_key=KEY, num_retries=0, timeout=30, max_tokens=200, **more)
        question = f"question {uuid.uuid4()}"
        messages = [{"role": "user", "content": question}]
        self.assertIn("echo: " + question, ask(messages).choices[0].message.content)
        pieces = [chunk.choices[0].delta.content or "" for chunk in ask(messages, stream=True)]
        self.assertIn("echo: " + question, "".join(pieces))
        first = ask(messages, tools=TOOLS).choices[0].message
        call = first.tool_calls[0]
        self.assertEqual(json.loads(call.function.arguments), {"city": question})
        messages += [first.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        self.assertIn("echo: " + question, ask(messages, tools=TOOLS).choices[0].message.content)

    def test_every_dialect(self):
        for model, base in (
            ("openai/@chat/sim-1", URL), ("openai/@ant/sim-1", URL),
            ("anthropic/@ant/sim-1", ROOT), ("anthropic/@chat/sim-1", ROOT),
            ("gemini/@gem/sim-1", ROOT + "/v1beta"), ("gemini/@chat/sim-1", ROOT + "/v1beta"),
        ):
            with self.subTest(model):
                self.work(model, base)


if __name__ == "__main__":
    unittest.main(verbosity=1)
