"""The official A2A library as agent and as client, with the built gateway between them; run by go test ./test/clients."""

import asyncio
import json
import os
import socket
import threading
import time
import unittest
import urllib.error
import urllib.request

import httpx
import uvicorn
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_stream_response_text, new_task_from_user_message, new_text_artifact, new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities, AgentCard, AgentInterface, AgentSkill, CancelTaskRequest, GetExtendedAgentCardRequest, GetTaskRequest,
    ListTasksRequest, Role, SendMessageConfiguration, SendMessageRequest, SubscribeToTaskRequest, TaskPushNotificationConfig, TaskState,
)
from a2a.utils.errors import A2AError, PushNotificationNotSupportedError, TaskNotFoundError
from starlette.applications import Starlette

URL, KEY = os.environ["GATEWAY_URL"], os.environ["GATEWAY_KEY"]
ROOT = URL.removesuffix("/v1")
BINDINGS = ["JSONRPC", "HTTP+JSON"]


class Echo(AgentExecutor):
    """Repeats a message in two chunks. "wait" is worked on until it is cancelled."""

    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        text = context.get_user_input()
        if text == "wait":
            await asyncio.sleep(600)
        for n, part in enumerate(("echo ", text)):
            await updater.add_artifact(new_text_artifact("out", part).parts, artifact_id="out", append=n > 0, last_chunk=n == 1)
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.current_task.id, context.current_task.context_id).cancel()


def start_agent():
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    base = f"http://127.0.0.1:{port}"
    card = AgentCard(
        name="Echo", description="Repeats what it is sent", version="1.0.0", default_input_modes=["text"], default_output_modes=["text"],
        supported_interfaces=[AgentInterface(url=base + "/rpc", protocol_binding="JSONRPC", protocol_version="1.0"),
                              AgentInterface(url=base + "/rest", protocol_binding="HTTP+JSON", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        skills=[AgentSkill(id="echo", name="Echo", description="Repeats", tags=["text"])])
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card, extended_agent_card=card)
    app = Starlette(routes=create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
                    + create_rest_routes(handler, path_prefix="/rest"))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return base


def control(method, path, body=None, key=KEY):
    request = urllib.request.Request(URL + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                     headers={"x-gateway-api-key": key, "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def new_key(name):
    return control("POST", "/api-keys/workspace/service",
                   {"name": name, "workspace_id": "default", "scopes": ["agents.invoke"]})["key"]


def setUpModule():
    global AGENT, ALICE, BOB
    AGENT = start_agent()
    control("POST", "/agent-integrations", {"name": "Echo", "slug": "echo-at", "url": AGENT, "auth_type": "none"})
    control("PUT", "/agent-integrations/echo-at/workspaces", {"workspaces": [{"id": "default", "enabled": True}]})
    control("POST", "/agent-servers", {"name": "Echo", "slug": "echo", "agent_integration_id": "echo-at", "workspace_id": "default"})
    control("PUT", "/agent-servers/echo/capabilities?workspace_id=default",
            {"capabilities": [{"type": "tool", "name": "message", "price_per_call": 0.002}]})
    ALICE, BOB = new_key("alice"), new_key("bob")
    for key in (ALICE, BOB):  # a change reaches the data plane within moments
        while True:
            try:
                request = urllib.request.Request(ROOT + "/a2a/echo/.well-known/agent-card.json", headers={"authorization": "Bearer " + key})
                urllib.request.urlopen(request, timeout=30).close()
                break
            except urllib.error.HTTPError as e:
                if e.code not in (401, 404):
                    raise
                time.sleep(0.05)


async def client(key, binding, streaming=True):
    http = httpx.AsyncClient(headers={"authorization": "Bearer " + key}, timeout=60)
    return await create_client(ROOT + "/a2a/echo", ClientConfig(
        httpx_client=http, streaming=streaming, polling=False, supported_protocol_bindings=[binding], use_client_preference=True))


def say(text, **members):
    message = new_text_message(text, role=Role.ROLE_USER)
    for name, value in members.items():
        setattr(message, name, value)
    return SendMessageRequest(message=message)


async def collect(events):
    return [event async for event in events]


class Agents(unittest.IsolatedAsyncioTestCase):
    async def test_the_card_is_that_of_the_gateway(self):
        metadata = control("POST", "/agent-servers/echo/sync?workspace_id=default")
        self.assertEqual((metadata["title"], metadata["sync_status"]), ("Echo", "synced"))
        with urllib.request.urlopen(urllib.request.Request(ROOT + "/a2a/echo/.well-known/agent-card.json",
                                                           headers={"authorization": "Bearer " + ALICE})) as answer:
            text = answer.read().decode()
        self.assertNotIn(AGENT, text)
        self.assertEqual([i["url"] for i in json.loads(text)["supportedInterfaces"]], [ROOT + "/a2a/echo"] * 2)
        extended = await (await client(ALICE, "JSONRPC")).get_extended_agent_card(GetExtendedAgentCardRequest())
        self.assertEqual({i.url for i in extended.supported_interfaces}, {ROOT + "/a2a/echo"})

    async def test_messages_streams_and_tasks(self):
        for binding in BINDINGS:
            for streaming in (True, False):
                with self.subTest(binding=binding, streaming=streaming):
                    c = await client(ALICE, binding, streaming)
                    events = await collect(c.send_message(say("hello")))
                    self.assertIn("hello", "".join(get_stream_response_text(e) for e in events))
                    task = events[0].task
                    self.assertTrue(task.id.startswith("mga_"), task.id)
                    got = await c.get_task(GetTaskRequest(id=task.id))
                    self.assertEqual((got.id, got.context_id, got.status.state), (task.id, task.context_id, TaskState.TASK_STATE_COMPLETED))
                    again = await collect(c.send_message(say("more", context_id=task.context_id)))
                    self.assertEqual(again[0].task.context_id, task.context_id)
                    listed = await c.list_tasks(ListTasksRequest(context_id=task.context_id))
                    self.assertEqual({t.id for t in listed.tasks}, {task.id, again[0].task.id})

    async def test_a_task_is_subscribed_to_and_cancelled(self):
        for binding in BINDINGS:
            with self.subTest(binding=binding):
                c = await client(ALICE, binding)
                stream = c.send_message(say("wait"))
                task = (await anext(stream)).task
                other = (await client(ALICE, binding)).subscribe(SubscribeToTaskRequest(id=task.id))
                self.assertEqual((await anext(other)).task.id, task.id)
                cancelled = await c.cancel_task(CancelTaskRequest(id=task.id))
                self.assertEqual((cancelled.id, cancelled.status.state), (task.id, TaskState.TASK_STATE_CANCELED))
                rest = await collect(other)
                self.assertEqual(rest[-1].status_update.status.state, TaskState.TASK_STATE_CANCELED)
                await stream.aclose()

    async def test_tasks_of_others_do_not_exist(self):
        for binding in BINDINGS:
            with self.subTest(binding=binding):
                task = (await collect((await client(ALICE, binding)).send_message(say("secret"))))[0].task
                thief = await client(BOB, binding)
                for call in (thief.get_task(GetTaskRequest(id=task.id)), thief.cancel_task(CancelTaskRequest(id=task.id)),
                             collect(thief.subscribe(SubscribeToTaskRequest(id=task.id)))):
                    with self.assertRaises(TaskNotFoundError):
                        await call
                for call in (thief.list_tasks(ListTasksRequest()), thief.list_tasks(ListTasksRequest(context_id=task.context_id)),
                             collect(thief.send_message(say("more", task_id=task.id)))):
                    with self.assertRaises(A2AError):
                        await call

    async def test_push_notifications_are_refused(self):
        c = await client(ALICE, "JSONRPC", streaming=False)
        request = say("hello")
        request.configuration.CopyFrom(SendMessageConfiguration(
            task_push_notification_config=TaskPushNotificationConfig(url="http://169.254.169.254/")))
        with self.assertRaises(PushNotificationNotSupportedError):
            await collect(c.send_message(request))

    async def test_messages_of_03_pass(self):
        async with httpx.AsyncClient(headers={"authorization": "Bearer " + ALICE}, timeout=60) as http:
            answer = (await http.post(ROOT + "/a2a/echo", json={"jsonrpc": "2.0", "id": "a", "method": "message/send", "params": {"message": {
                "kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}}})).json()
            self.assertEqual((answer["id"], answer["result"]["kind"]), ("a", "task"), answer)
            got = (await http.post(ROOT + "/a2a/echo", json={"jsonrpc": "2.0", "id": 2, "method": "tasks/get",
                                                             "params": {"id": answer["result"]["id"]}})).json()
            self.assertEqual(got["result"]["status"]["state"], "completed", got)


if __name__ == "__main__":
    unittest.main()
