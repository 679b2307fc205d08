"""Python client libraries against the built gateway; run by go test ./test/clients.

Each library asks for a complete response, for a stream, and works in a tool loop,
on a provider of its own dialect and on another.
"""

import asyncio
import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import threading
import unittest
import unittest.mock
import urllib.parse
import urllib.request
import uuid

URL, KEY = os.environ["GATEWAY_URL"], os.environ["GATEWAY_KEY"]
ROOT = URL.removesuffix("/v1")
CHAT, ANT, GEM, AWS, OAI = "@chat/sim-1", "@ant/sim-1", "@gem/sim-1", "@aws/sim-1", "@sim/sim-1"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def mark():
    return f"question {uuid.uuid4()}"


def arrived(text):
    """Returns the requests at the provider that hold the text."""
    with urllib.request.urlopen(f"{os.environ['BOOKS_URL']}/?mark={urllib.parse.quote(text)}") as response:
        return json.load(response)


class Case(unittest.TestCase):
    def each(self, *models):
        """Returns models with a question for each."""
        return [(model, mark()) for model in models]

    def says(self, question, text):
        self.assertIn("echo: " + question, text)


class Webhooks(Case):
    def test_endpoints(self):
        """Manages an endpoint by openai, and receives events by the example of docs/webhooks.md."""
        from openai import InvalidWebhookSignatureError, NotFoundError, OpenAI

        page = (pathlib.Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()
        example = page.split("```python\n")[1].split("```")[0]
        client = OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=30)
        self.addCleanup(client.close)
        received = []

        server = http.server.HTTPServer(("127.0.0.1", 0), None)
        self.addCleanup(server.server_close)
        url = f"http://127.0.0.1:{server.server_port}/events?a=b"
        made = client.webhooks.create(name="Batches", url=url, event_types=["batch.completed", "response.failed"])
        with unittest.mock.patch.dict(os.environ, {"WEBHOOK_SECRET": made.signing_secret}):
            scope = {"print": lambda *text: received.append(text)}
            exec(example, scope)
        scope["Receiver"].log_message = lambda *_: None
        server.RequestHandlerClass = scope["Receiver"]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)

        for event_type in ["batch.completed", "response.failed"]:
            result = client.webhooks.test(made.id, event_type=event_type)
            self.assertEqual((result.success, result.status_code, result.event_type), (True, 204, event_type))
        self.assertEqual([kind for kind, _ in received], ["batch.completed", "response.failed"])
        self.assertEqual(client.webhooks.retrieve(made.id).url, url)
        self.assertEqual(client.webhooks.update(made.id, name="Renamed").name, "Renamed")
        self.assertIn(made.id, [e.id for e in client.webhooks.list(limit=1)])
        self.assertIn("batch.completed", client.webhooks.event_types.list().data)

        both = client.webhooks.rotate_secret(made.id, keep_old_secret_active_for_24_hours=True)
        self.assertNotEqual(both.signing_secret, made.signing_secret)
        self.assertEqual(client.webhooks.test(made.id, event_type="batch.completed").status_code, 204)
        client.webhooks.rotate_secret(made.id)
        self.assertEqual(client.webhooks.test(made.id, event_type="batch.completed").status_code, 400)
        with self.assertRaises(InvalidWebhookSignatureError):
            client.webhooks.unwrap(b"{}", {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}, secret=made.signing_secret)
        self.assertTrue(client.webhooks.delete(made.id).deleted)
        with self.assertRaises(NotFoundError):
            client.webhooks.retrieve(made.id)


class OpenAI(Case):
    def setUp(self):
        from openai import OpenAI

        self.client = OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=30)
        self.addCleanup(self.client.close)

    def test_chat(self):
        for model, question in self.each(CHAT, ANT, GEM):
            messages = [{"role": "user", "content": question}]
            answer = self.client.chat.completions.create(model=model, messages=messages)
            self.says(question, answer.choices[0].message.content)
            self.assertGreater(answer.usage.total_tokens, 0)
            pieces = [c.choices[0].delta.content or "" for c in self.client.chat.completions.create(model=model, messages=messages, stream=True) if c.choices]
            self.assertGreater(len(pieces), 3)
            self.says(question, "".join(pieces))

    def test_chat_tools(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        for model, question in self.each(CHAT, ANT, GEM):
            messages = [{"role": "user", "content": question}]
            first = self.client.chat.completions.create(model=model, messages=messages, tools=tools).choices[0]
            self.assertEqual(first.finish_reason, "tool_calls")
            call = first.message.tool_calls[0]
            self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": question}))
            messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
            self.says(question, self.client.chat.completions.create(model=model, messages=messages, tools=tools).choices[0].message.content)

    def test_responses(self):
        tools = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
        for model, question in self.each(OAI, ANT, GEM):
            self.says(question, self.client.responses.create(model=model, input=question, store=False).output_text)
            with self.client.responses.stream(model=model, input=question, store=False) as stream:
                kinds = [event.type for event in stream]
                self.says(question, stream.get_final_response().output_text)
            self.assertEqual(kinds[-1], "response.completed")
            history = [{"role": "user", "content": question}]
            first = self.client.responses.create(model=model, input=history, tools=tools, store=False)
            call = next(item for item in first.output if item.type == "function_call")
            self.assertEqual(json.loads(call.arguments), {"city": question})
            history += [*first.output, {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
            self.says(question, self.client.responses.create(model=model, input=history, tools=tools, store=False).output_text)

    def test_stored_responses(self):
        from openai import BadRequestError, NotFoundError

        for model, question in self.each(ANT, GEM):
            responses = self.client.responses
            first = responses.create(model=model, input=question, metadata={"a": "b"})
            self.assertEqual(responses.retrieve(first.id).output_text, first.output_text)
            with responses.stream(model=model, input="and then", previous_response_id=first.id) as stream:
                second = stream.get_final_response()
            self.assertEqual(second.previous_response_id, first.id)
            self.assertEqual(len(list(responses.input_items.list(second.id, limit=1, order="asc"))), 3)
            self.assertTrue(any(question in request and "and then" in request for request in map(json.dumps, arrived("and then"))))
            responses.delete(first.id)
            self.assertRaises(NotFoundError, responses.retrieve, first.id)
            with self.assertRaises(BadRequestError) as refused:
                responses.create(model=model, input="x", previous_response_id=second.id)
            self.assertEqual(refused.exception.code, "previous_response_not_found")

    def test_conversations(self):
        for model, question in self.each(ANT, GEM):
            conversation = self.client.conversations.create(metadata={"a": "b"}, items=[{"type": "message", "role": "user", "content": question}])
            answer = self.client.responses.create(model=model, input="go on", conversation=conversation.id)
            self.assertEqual(answer.conversation.id, conversation.id)
            items = list(self.client.conversations.items.list(conversation.id, limit=2, order="asc"))
            self.assertEqual([item.role for item in items], ["user", "user", "assistant"])
            self.client.conversations.items.delete(items[0].id, conversation_id=conversation.id)
            self.assertEqual(self.client.conversations.update(conversation.id, metadata={"c": "d"}).metadata, {"c": "d"})
            self.assertTrue(self.client.conversations.delete(conversation.id).deleted)

    def test_background(self):
        for model, question in self.each(ANT, GEM):
            responses = self.client.responses
            begun = responses.create(model=model, input=question, background=True, stream=True)
            event = next(iter(begun))
            begun.close()
            rest = list(responses.retrieve(event.response.id, stream=True, starting_after=event.sequence_number))
            self.assertEqual([e.sequence_number for e in rest], list(range(1, len(rest) + 1)))
            self.assertEqual(rest[-1].type, "response.completed")
            self.says(question, rest[-1].response.output_text)
            self.assertEqual(responses.cancel(event.response.id).status, "completed")

    def test_models_and_forms(self):
        self.assertEqual(self.client.models.retrieve("@chat/sim-1").id, "@chat/sim-1")
        self.assertIn("@ant/sim-1", [m.id for m in self.client.models.list()])
        text = self.client.audio.transcriptions.create(model="@sim/whisper-1", file=("a.mp3", b"\0" * 100_000)).text
        self.assertTrue(text)


class Anthropic(Case):
    def setUp(self):
        from anthropic import Anthropic

        self.client = Anthropic(base_url=ROOT, api_key=KEY, max_retries=0, timeout=30)
        self.addCleanup(self.client.close)

    def test_messages(self):
        tools = [{"name": "weather", "input_schema": SCHEMA}]
        for model, question in self.each(ANT, CHAT, GEM):
            messages = [{"role": "user", "content": question}]
            self.says(question, self.client.messages.create(model=model, max_tokens=200, messages=messages).content[0].text)
            with self.client.messages.stream(model=model, max_tokens=200, messages=messages) as stream:
                self.says(question, "".join(stream.text_stream))
                self.assertEqual(stream.get_final_message().stop_reason, "end_turn")
            first = self.client.messages.create(model=model, max_tokens=200, messages=messages, tools=tools)
            use = next(block for block in first.content if block.type == "tool_use")
            self.assertEqual(use.input, {"city": question})
            messages += [{"role": "assistant", "content": first.content},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]}]
            self.says(question, self.client.messages.create(model=model, max_tokens=200, messages=messages, tools=tools).content[0].text)
            self.assertGreater(self.client.messages.count_tokens(model=model, messages=messages[:1]).input_tokens, 5)

    def test_models(self):
        from anthropic import NotFoundError

        self.assertEqual(self.client.models.retrieve("@ant/sim-1").id, "@ant/sim-1")
        with self.assertRaises(NotFoundError):
            self.client.models.retrieve("@ant/nothing")

    def test_files(self):
        from anthropic import BadRequestError, NotFoundError

        for files in (self.client.files, self.client.beta.files):
            name = mark() + ".csv"
            up = files.upload(file=(name, b"item,value\n" * 100_000, "text/csv"))
            self.assertEqual((up.filename, up.mime_type, up.size_bytes, up.downloadable), (name, "text/csv", 1_100_000, False))
            self.assertEqual(files.retrieve_metadata(up.id), up)
            self.assertIn(up.id, [f.id for f in files.list(limit=1)])
            with self.assertRaisesRegex(BadRequestError, "file_not_downloadable"):
                files.download(up.id)
            self.assertEqual(files.delete(up.id).type, "file_deleted")
            with self.assertRaises(NotFoundError):
                files.retrieve_metadata(up.id)


class Google(Case):
    def setUp(self):
        from google import genai
        from google.genai import types

        self.types = types
        self.client = genai.Client(api_key=KEY, http_options={"base_url": ROOT})
        self.addCleanup(self.client.close)

    def test_content(self):
        tool = {"function_declarations": [{"name": "weather", "parameters_json_schema": SCHEMA}]}
        for model, question in self.each(GEM, CHAT, ANT):
            self.says(question, self.client.models.generate_content(model=model, contents=question).text)
            self.says(question, "".join(c.text or "" for c in self.client.models.generate_content_stream(model=model, contents=question)))
            first = self.client.models.generate_content(model=model, contents=question, config={"tools": [tool], "automatic_function_calling": {"disable": True}})
            call = first.function_calls[0]
            self.assertEqual((call.name, call.args), ("weather", {"city": question}))
            history = [self.types.UserContent(question), first.candidates[0].content,
                       self.types.UserContent(self.types.Part(function_response=self.types.FunctionResponse(id=call.id, name=call.name, response={"result": "sunny"})))]
            self.says(question, self.client.models.generate_content(model=model, contents=history, config={"tools": [tool]}).text)
            self.assertGreater(self.client.models.count_tokens(model=model, contents=question).total_tokens, 5)

    def test_models(self):
        self.assertEqual(self.client.models.get(model="@gem/sim-1").name, "models/@gem/sim-1")
        self.assertIn("models/@ant/sim-1", [m.name for m in self.client.models.list()])

    def test_files(self):
        from google.genai.errors import ClientError

        content = b"0123456789abcdef" * 600_000  # two chunks
        up = self.client.files.upload(file=io.BytesIO(content), config={"mime_type": "video/mp4", "display_name": "clip"})
        self.assertEqual((up.state.value, up.display_name, up.mime_type, up.size_bytes), ("ACTIVE", "clip", "video/mp4", len(content)))
        self.assertEqual(up.sha256_hash, base64.b64encode(hashlib.sha256(content).digest()).decode())
        self.assertEqual(self.client.files.get(name=up.name).uri, up.uri)
        self.assertIn(up.name, [f.name for f in self.client.files.list(config={"page_size": 1})])
        self.client.files.delete(name=up.name)
        with self.assertRaises(ClientError) as gone:
            self.client.files.get(name=up.name)
        self.assertEqual(gone.exception.status, "NOT_FOUND")


class Boto3(Case):
    def bedrock(self, **options):
        import boto3
        from botocore.config import Config

        config = Config(retries={"total_max_attempts": 1}, **options.pop("config", {}))
        client = boto3.client("bedrock-runtime", region_name="us-east-1", config=config, **options)
        self.addCleanup(client.close)
        return client

    def test_header(self):
        from botocore import UNSIGNED

        client = self.bedrock(endpoint_url=ROOT, config={"signature_version": UNSIGNED})
        client.meta.events.register("before-call.bedrock-runtime", lambda params, **_: params["headers"].update({"x-gateway-api-key": KEY}))
        self.converse(client)

    def test_bearer_over_tls(self):
        with unittest.mock.patch.dict(os.environ, {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_CA_BUNDLE": os.environ["TLS_CA"]}):
            self.converse(self.bedrock(endpoint_url=os.environ["TLS_URL"].removesuffix("/v1")))

    def test_bearer_over_tls_with_another_key(self):
        from botocore.exceptions import ClientError

        with unittest.mock.patch.dict(os.environ, {"AWS_BEARER_TOKEN_BEDROCK": "mg-wrong", "AWS_CA_BUNDLE": os.environ["TLS_CA"]}):
            client = self.bedrock(endpoint_url=os.environ["TLS_URL"].removesuffix("/v1"))
            with self.assertRaises(ClientError) as refused:
                client.converse(modelId=AWS, messages=[{"role": "user", "content": [{"text": "x"}]}])
        self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 401)

    def test_bearer_over_plain_http_is_refused(self):
        # By boto3 itself: docs/coding-agents.md shows the two other ways.
        with unittest.mock.patch.dict(os.environ, {"AWS_BEARER_TOKEN_BEDROCK": KEY}):
            client = self.bedrock(endpoint_url=ROOT)
            with self.assertRaisesRegex(Exception, "(?i)bearer|https"):
                client.converse(modelId=AWS, messages=[{"role": "user", "content": [{"text": "x"}]}])

    def converse(self, client):
        tools = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": SCHEMA}}}]}
        for model, question in self.each(AWS, CHAT, ANT):
            messages = [{"role": "user", "content": [{"text": question}]}]
            self.says(question, client.converse(modelId=model, messages=messages)["output"]["message"]["content"][0]["text"])
            events = list(client.converse_stream(modelId=model, messages=messages)["stream"])
            self.says(question, "".join(e["contentBlockDelta"]["delta"].get("text", "") for e in events if "contentBlockDelta" in e))
            self.assertTrue(any("messageStop" in e for e in events))
            first = client.converse(modelId=model, messages=messages, toolConfig=tools)
            use = next(block["toolUse"] for block in first["output"]["message"]["content"] if "toolUse" in block)
            self.assertEqual(use["input"], {"city": question})
            messages += [first["output"]["message"], {"role": "user", "content": [{"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "sunny"}]}}]}]
            self.says(question, client.converse(modelId=model, messages=messages, toolConfig=tools)["output"]["message"]["content"][0]["text"])
            count = client.count_tokens(modelId=model, input={"converse": {"messages": messages[:1]}})
            self.assertGreater(count["inputTokens"], 5)


class Cohere(Case):
    def setUp(self):
        import cohere

        self.library = cohere
        self.client = cohere.ClientV2(api_key=KEY, base_url=ROOT, timeout=30)
        self.old = cohere.Client(api_key=KEY, base_url=ROOT, timeout=30)

    def test_chat(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        for model, question in self.each("@coh/sim-1", "sim-1"):
            messages = [{"role": "user", "content": question}]
            self.says(question, self.client.chat(model=model, messages=messages).message.content[0].text)
            events = list(self.client.chat_stream(model=model, messages=messages))
            self.says(question, "".join(e.delta.message.content.text for e in events if e.type == "content-delta"))
            self.assertEqual(events[-1].type, "message-end")
            first = self.client.chat(model=model, messages=messages, tools=tools).message
            call = first.tool_calls[0]
            self.assertEqual(json.loads(call.function.arguments), {"city": question})
            messages += [first, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
            self.says(question, self.client.chat(model=model, messages=messages, tools=tools).message.content[0].text)

    def test_embed_and_rerank(self):
        vectors = self.client.embed(model="@coh/sim-1", texts=["a", "b"], input_type="search_query", embedding_types=["float"]).embeddings.float_
        self.assertEqual(len(vectors), 2)
        for client in (self.client, self.old):
            ranks = client.rerank(model="@coh/sim-1", query="a", documents=["a", "b", "c"], top_n=2).results
            self.assertEqual(len(ranks), 2)
            self.assertGreaterEqual(ranks[0].relevance_score, ranks[1].relevance_score)

    def test_version_1(self):
        for model, path, ask in (
            ("@coh/sim-1", "/v1/chat", lambda m, q: self.old.chat(model=m, message=q)),
            ("sim-1", "/v1/chat", lambda m, q: self.old.chat(model=m, message=q)),
            ("@coh/sim-1", "/v1/tokenize", lambda m, q: self.old.tokenize(model=m, text=q, offline=False)),
            ("@coh/sim-1", "/v1/classify", lambda m, q: self.old.classify(model=m, inputs=[q])),
            ("", "/v1/connectors", lambda m, q: self.old.connectors.create(name=q, url="https://example.com")),
        ):
            with self.subTest(f"{path} {model}"):
                question = mark()
                try:
                    ask(model, question)
                except (self.library.core.api_error.ApiError, ValueError, TypeError, AttributeError):
                    pass  # the simulator echoes requests of paths that it does not know
                self.assertEqual([r["uri"] for r in arrived(question)], [path])

    def test_models(self):
        name = mark().replace(" ", "-")
        try:
            self.old.models.get(f"@coh/{name}")
        except self.library.errors.NotFoundError:
            pass
        self.assertEqual([r["uri"] for r in arrived(name)], ["/v1/models/" + name])

    def test_errors(self):
        with self.assertRaises(self.library.errors.UnauthorizedError):
            self.library.ClientV2(api_key="mg-wrong", base_url=ROOT).chat(model="@coh/sim-1", messages=[{"role": "user", "content": "x"}])
        with self.assertRaises(self.library.errors.NotImplementedError):
            self.client.chat(model="@ant/sim-1", messages=[{"role": "user", "content": "x"}])


class Ollama(Case):
    def setUp(self):
        from ollama import Client, ResponseError

        self.error = ResponseError
        self.client = Client(host=ROOT, headers={"authorization": "Bearer " + KEY})

    def test_chat(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        for model, question in self.each("@oll/sim-1", "sim-1"):
            messages = [{"role": "user", "content": question}]
            self.says(question, self.client.chat(model=model, messages=messages).message.content)
            self.says(question, "".join(part.message.content for part in self.client.chat(model=model, messages=messages, stream=True)))
            first = self.client.chat(model=model, messages=messages, tools=tools).message
            self.assertEqual(first.tool_calls[0].function.arguments, {"city": question})
            messages += [first, {"role": "tool", "tool_name": "weather", "content": "sunny"}]
            self.says(question, self.client.chat(model=model, messages=messages, tools=tools).message.content)
        self.assertEqual(len(self.client.embed(model="@oll/sim-1", input=["a", "b"]).embeddings), 2)

    def test_changes(self):
        for path, change in (
            ("/api/pull", lambda q: self.client.pull(q)),
            ("/api/pull", lambda q: list(self.client.pull("@oll/" + q, stream=True))),
            ("/api/push", lambda q: self.client.push(q)),
            ("/api/create", lambda q: self.client.create(model=q, from_="sim-1")),
            ("/api/copy", lambda q: self.client.copy(q, "b")),
            ("/api/delete", lambda q: self.client.delete(q)),
        ):
            with self.subTest(path):
                name = mark().replace(" ", "-")
                try:
                    change(name)
                except (ValueError, self.error) as e:
                    self.assertNotIn("gateway", str(e))
                self.assertEqual([r["uri"] for r in arrived(name)], [path])

    def test_errors(self):
        with self.assertRaises(self.error) as refused:
            self.client.chat(model="@ant/sim-1", messages=[{"role": "user", "content": "x"}])
        self.assertEqual(refused.exception.status_code, 501)


class LangChain(Case):
    def work(self, llm, question):
        from langchain_core.messages import HumanMessage, ToolMessage
        from langchain_core.tools import tool

        @tool
        def weather(city: str) -> str:
            """Tells the weather."""
            return "sunny in " + city

        self.says(question, llm.invoke(question).text)
        self.says(question, "".join(chunk.text for chunk in llm.stream(question)))
        messages, bound = [HumanMessage(question)], llm.bind_tools([weather])
        first = bound.invoke(messages)
        self.assertEqual(first.tool_calls[0]["args"], {"city": question})
        messages += [first, ToolMessage(weather.invoke(first.tool_calls[0]["args"]), tool_call_id=first.tool_calls[0]["id"])]
        self.says(question, bound.invoke(messages).text)

    def test_openai(self):
        from langchain_openai import ChatOpenAI

        for model, question in self.each(CHAT, ANT, GEM):
            self.work(ChatOpenAI(base_url=URL, api_key=KEY, model=model, max_retries=0, timeout=30), question)

    def test_anthropic(self):
        from langchain_anthropic import ChatAnthropic

        for model, question in self.each(ANT, CHAT, GEM):
            self.work(ChatAnthropic(base_url=ROOT, api_key=KEY, model=model, max_tokens=200, max_retries=0, timeout=30), question)


class PydanticAI(Case):
    def work(self, model, question):
        from pydantic_ai import Agent

        asked = []

        def weather(city: str) -> str:
            """Tells the weather."""
            asked.append(city)
            return "sunny"

        async def run():
            self.says(question, (await Agent(model).run(question)).output)
            async with Agent(model).run_stream(question) as stream:
                self.says(question, "".join([piece async for piece in stream.stream_text(delta=True)]))
            self.says(question, (await Agent(model, tools=[weather]).run(question)).output)
            self.assertEqual(asked, [question])

        asyncio.run(run())

    def test_openai(self):
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        for model, question in self.each(CHAT, ANT):
            self.work(OpenAIChatModel(model, provider=OpenAIProvider(base_url=URL, api_key=KEY)), question)

    def test_anthropic(self):
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        for model, question in self.each(ANT, CHAT):
            self.work(AnthropicModel(model, provider=AnthropicProvider(base_url=ROOT, api_key=KEY)), question)

    def test_google(self):
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        for model, question in self.each(GEM, CHAT):
            self.work(GoogleModel(model, provider=GoogleProvider(api_key=KEY, base_url=ROOT)), question)


class OpenAIAgents(Case):
    def test_agent(self):
        from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
        from openai import AsyncOpenAI

        set_tracing_disabled(True)
        for kind, name in ((OpenAIResponsesModel, OAI), (OpenAIResponsesModel, ANT), (OpenAIChatCompletionsModel, CHAT), (OpenAIChatCompletionsModel, GEM)):
            with self.subTest(f"{kind.__name__} {name}"):
                question, asked = mark(), []

                @function_tool
                def weather(city: str) -> str:
                    """Tells the weather."""
                    asked.append(city)
                    return "sunny"

                async def run():
                    client = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
                    model = kind(model=name, openai_client=client)
                    self.says(question, (await Runner.run(Agent(name="a", model=model), question)).final_output)
                    self.says(question, (await Runner.run(Agent(name="a", model=model, tools=[weather]), question)).final_output)
                    streamed = Runner.run_streamed(Agent(name="a", model=model, tools=[weather]), question)
                    events = [event async for event in streamed.stream_events()]
                    self.assertGreater(len(events), 5)
                    self.says(question, streamed.final_output)
                    await client.close()

                asyncio.run(run())
                self.assertEqual(asked, [question, question])


if __name__ == "__main__":
    unittest.main(verbosity=1)
