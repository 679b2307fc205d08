"""What outlives a request, by the official Python libraries; run by go test ./test/clients.

Each case is code as a vendor's documentation has it: a base address and a key are all
that is set. What is kept by the gateway and what a provider keeps behave alike.
"""

import hashlib
import io
import json
import os
import time
import unittest
import uuid

URL, KEY = os.environ["GATEWAY_URL"], os.environ["GATEWAY_KEY"]
ROOT = URL.removesuffix("/v1")
OWN, VENDOR = None, "@sim"


def mark():
    return f"question {uuid.uuid4()}"


def lines(*models):
    return b"".join(json.dumps({"custom_id": f"c{i}", "method": "POST", "url": "/v1/chat/completions",
                                "body": {"model": model, "messages": [{"role": "user", "content": f"line {i}"}]}}).encode() + b"\n"
                    for i, model in enumerate(models))


def until(read, done):
    """Reads until done holds of what was read, for a minute at most."""
    end = time.monotonic() + 60
    while not done(value := read()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {value}")
        time.sleep(0.02)
    return value


class OpenAI(unittest.TestCase):
    def client(self, provider):
        from openai import OpenAI

        headers = {"x-gateway-provider": provider} if provider else {}
        client = OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=30, default_headers=headers)
        self.addCleanup(client.close)
        return client

    def test_files(self):
        from openai import NotFoundError

        for provider in (OWN, VENDOR):
            files, name, content = self.client(provider).files, f"{uuid.uuid4()}.txt", os.urandom(1 << 20)
            file = files.create(file=(name, content), purpose="user_data")
            self.assertEqual((file.object, file.filename, file.bytes, file.purpose, file.status), ("file", name, len(content), "user_data", "processed"))
            self.assertEqual(files.wait_for_processing(file.id).id, file.id)
            self.assertEqual(files.retrieve(file.id), file)
            self.assertEqual(files.content(file.id).read(), content)
            with files.with_streaming_response.content(file.id) as streamed:
                self.assertEqual(b"".join(streamed.iter_bytes(1 << 16)), content)
            self.assertIn(file.id, [f.id for f in files.list(purpose="user_data", limit=1, order="desc")])
            self.assertNotIn(file.id, [f.id for f in files.list(purpose="vision")])
            self.assertTrue(files.delete(file.id).deleted)
            for gone in (files.retrieve, files.content, files.delete):
                self.assertRaises(NotFoundError, gone, file.id)

    def test_uploads(self):
        from openai import BadRequestError

        client, content = self.client(OWN), os.urandom(3 << 20)
        upload = client.uploads.create(bytes=len(content), filename="a.bin", mime_type="application/octet-stream", purpose="user_data")
        parts = {at: client.uploads.parts.create(upload.id, data=content[at:at + (1 << 20)]) for at in (2 << 20, 0, 1 << 20)}
        done = client.uploads.complete(upload.id, part_ids=[parts[at].id for at in sorted(parts)], md5=hashlib.md5(content).hexdigest())
        self.assertEqual((done.status, done.file.bytes), ("completed", len(content)))
        self.assertEqual(client.files.content(done.file.id).read(), content)
        whole = client.uploads.upload_file_chunked(file=content, filename="b.bin", bytes=len(content), mime_type="application/octet-stream", purpose="user_data", part_size=1 << 20)
        self.assertEqual(client.files.content(whole.file.id).read(), content)
        cancelled = client.uploads.create(bytes=1, filename="c.bin", mime_type="application/octet-stream", purpose="user_data")
        self.assertEqual(client.uploads.cancel(cancelled.id).status, "cancelled")
        with self.assertRaises(BadRequestError):
            client.uploads.parts.create(cancelled.id, data=b"a")

    def test_batches(self):
        for provider, models, window in (
            (OWN, ("@ant/sim-1", "@gem/sim-1", "@ant/sim-1+status=400"), "immediate"),
            (OWN, ("@chat/sim-1", "@gem/sim-1", "@chat/sim-1+status=400"), "24h"),
            (VENDOR, ("sim-1", "sim-1"), "24h"),
        ):
            client = self.client(provider)
            file = client.files.create(file=("a.jsonl", lines(*models)), purpose="batch")
            batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window=window, metadata={"a": "b"})
            self.assertEqual((batch.object, batch.input_file_id, batch.metadata), ("batch", file.id, {"a": "b"}))
            batch = until(lambda: client.batches.retrieve(batch.id), lambda b: b.status in ("completed", "failed", "expired", "cancelled"))
            self.assertEqual((batch.status, batch.request_counts.completed, batch.request_counts.failed), ("completed", 2, len(models) - 2), batch)
            results = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
            self.assertEqual(sorted(r["custom_id"] for r in results), ["c0", "c1"])
            self.assertTrue(all("line" in r["response"]["body"]["choices"][0]["message"]["content"] for r in results), results)
            failures = client.files.content(batch.error_file_id).text.splitlines() if batch.error_file_id else []
            self.assertEqual([(f["custom_id"], f["response"]["status_code"]) for f in map(json.loads, failures)], [("c2", 400)][:len(models) - 2])
            self.assertIn(batch.id, [b.id for b in client.batches.list(limit=1)])

    def test_cancelled_batches(self):
        from openai import ConflictError, NotFoundError

        for provider, model, window in ((OWN, "@ant/sim-1+headers=1m", "immediate"), (VENDOR, "sim-1+job=hang", "24h")):
            client = self.client(provider)
            file = client.files.create(file=("a.jsonl", lines(model)), purpose="batch")
            batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window=window)
            until(lambda: client.batches.retrieve(batch.id), lambda b: b.status == "in_progress")
            self.assertIn(client.batches.cancel(batch.id).status, ("cancelling", "cancelled"))
            until(lambda: client.batches.retrieve(batch.id), lambda b: b.status == "cancelled")
            self.assertRaises(ConflictError, client.batches.cancel, batch.id)
            self.assertRaises(NotFoundError, client.batches.retrieve, "batch_none")

    def test_fine_tuning(self):
        from openai import BadRequestError, NotFoundError

        client = self.client(VENDOR)
        examples = b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n' * 12
        file = client.files.create(file=("a.jsonl", examples), purpose="fine-tune")
        jobs = client.fine_tuning.jobs
        job = jobs.create(model="gpt-4o-mini", training_file=file.id, suffix="own", seed=7, method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 1}}})
        self.assertEqual((job.object, job.training_file, job.seed, job.fine_tuned_model), ("fine_tuning.job", file.id, 7, None))
        job = until(lambda: jobs.retrieve(job.id), lambda j: j.status in ("succeeded", "failed", "cancelled"))
        self.assertEqual((job.status, job.error), ("succeeded", None))
        self.assertIn("own", job.fine_tuned_model)
        self.assertGreater(job.trained_tokens, 0)
        self.assertIn(job.id, [j.id for j in jobs.list(limit=1)])
        events = list(jobs.list_events(job.id, limit=1))
        self.assertGreater(len(events), 1)
        self.assertEqual(len({e.id for e in events}), len(events))
        for checkpoint in jobs.checkpoints.list(job.id, limit=1):
            self.assertEqual(checkpoint.fine_tuning_job_id, job.id)
        with self.assertRaises(BadRequestError):
            jobs.cancel(job.id)
        self.assertRaises(NotFoundError, jobs.retrieve, "ftjob-none")
        running = jobs.create(model="gpt-4o-mini+job=hang", training_file=file.id)
        until(lambda: jobs.retrieve(running.id), lambda j: j.status == "running")
        jobs.pause(running.id)
        jobs.resume(running.id)
        self.assertEqual(jobs.cancel(running.id).status, "cancelled")

    def test_responses(self):
        """Reads, continues, cancels and deletes responses that the gateway and a provider store."""
        from openai import NotFoundError

        client = self.client(OWN)
        for model in ("@ant/sim-1", "@gem/sim-1", "@sim/gpt-5"):
            with self.subTest(model):
                question = mark()
                first = client.responses.create(model=model, input=question, store=True)
                self.assertEqual(client.responses.retrieve(first.id, include=["message.input_image.image_url"]).output_text, first.output_text)
                self.assertIn(question, json.dumps([item.to_dict() for item in client.responses.input_items.list(first.id)]))
                second = client.responses.create(model=model, input="and then", previous_response_id=first.id)
                self.assertEqual(second.previous_response_id, first.id)
                client.responses.delete(first.id)
                self.assertRaises(NotFoundError, client.responses.retrieve, first.id)
                self.assertRaises(NotFoundError, client.responses.delete, first.id)
                self.assertRaises(NotFoundError, client.responses.input_items.list, first.id)

    def test_responses_in_the_background(self):
        client = self.client(OWN)
        for model in ("@ant/sim-1", "@sim/gpt-5"):
            with self.subTest(model):
                begun = client.responses.create(model=model, input=mark(), background=True)
                self.assertIn(begun.status, ("queued", "in_progress", "completed"))
                done = until(lambda: client.responses.retrieve(begun.id), lambda r: r.status == "completed")
                streamed = client.responses.create(model=model, input=mark(), background=True, stream=True)
                events = list(streamed)
                again = list(client.responses.retrieve(events[0].response.id, stream=True, starting_after=2))
                self.assertEqual([e.sequence_number for e in again], [e.sequence_number for e in events[3:]])
                self.assertEqual([e.type for e in again], [e.type for e in events[3:]])
                self.assertEqual(client.responses.cancel(done.id).status, "completed")
        slow = client.responses.create(model="@ant/sim-1+headers=1m", input="hi", background=True)
        until(lambda: client.responses.retrieve(slow.id), lambda r: r.status == "in_progress")
        self.assertEqual(client.responses.cancel(slow.id).status, "cancelled")
        self.assertEqual(client.responses.cancel(slow.id).status, "cancelled")

    def test_conversations(self):
        from openai import NotFoundError

        client = self.client(OWN)
        talk = client.conversations.create(metadata={"a": "b"}, items=[{"type": "message", "role": "user", "content": "one"}])
        self.assertEqual(client.conversations.retrieve(talk.id).metadata, {"a": "b"})
        added = client.conversations.items.create(talk.id, items=[{"type": "message", "role": "user", "content": "two"}])
        item = client.conversations.items.retrieve(added.data[0].id, conversation_id=talk.id)
        self.assertEqual(item.content[0].text, "two")
        answer = client.responses.create(model="@ant/sim-1", input="three", conversation=talk.id)
        self.assertEqual(answer.conversation.id, talk.id)
        self.assertEqual([i.role for i in client.conversations.items.list(talk.id, order="asc", limit=2)], ["user", "user", "user", "assistant"])
        client.conversations.items.delete(item.id, conversation_id=talk.id)
        self.assertRaises(NotFoundError, client.conversations.items.retrieve, item.id, conversation_id=talk.id)
        self.assertEqual(client.conversations.update(talk.id, metadata={"c": "d"}).metadata, {"c": "d"})
        self.assertTrue(client.conversations.delete(talk.id).deleted)
        self.assertRaises(NotFoundError, client.conversations.retrieve, talk.id)

    def test_client_secrets(self):
        from openai import BadRequestError

        client = self.client(OWN)
        made = client.realtime.client_secrets.create(expires_after={"anchor": "created_at", "seconds": 60}, session={"type": "realtime", "model": "@sim/gpt-realtime"})
        self.assertTrue(made.value.startswith("ek_"), made.value)
        self.assertNotIn(KEY, made.value)
        self.assertAlmostEqual(made.expires_at, time.time() + 60, delta=30)
        self.assertEqual(made.session.type, "realtime")
        with self.assertRaises(BadRequestError):
            client.realtime.client_secrets.create(expires_after={"anchor": "created_at", "seconds": 5}, session={"type": "realtime", "model": "@sim/gpt-realtime"})


class Anthropic(unittest.TestCase):
    def setUp(self):
        from anthropic import Anthropic

        self.client = Anthropic(base_url=ROOT, api_key=KEY, max_retries=0, timeout=30, default_headers={"x-gateway-provider": "@ant"})
        self.addCleanup(self.client.close)

    def test_batches(self):
        """Gets results from the address in the batch, with the key of the client."""
        from anthropic import NotFoundError

        for batches in (self.client.messages.batches, self.client.beta.messages.batches):
            params = {"model": "sim-1", "max_tokens": 10, "messages": [{"role": "user", "content": mark()}]}
            made = batches.create(requests=[{"custom_id": "a", "params": params}, {"custom_id": "b", "params": {**params, "model": "sim-1+status=400"}}])
            self.assertEqual(made.type, "message_batch")
            ended = until(lambda: batches.retrieve(made.id), lambda b: b.processing_status == "ended")
            self.assertTrue(ended.results_url.startswith(URL + "/messages/batches/"), ended.results_url)
            self.assertEqual({r.custom_id: r.result.type for r in batches.results(made.id)}, {"a": "succeeded", "b": "errored"})
            self.assertIn((made.id, ended.results_url), [(b.id, b.results_url) for b in batches.list(limit=1)])
            self.assertEqual(batches.delete(made.id).type, "message_batch_deleted")
            self.assertRaises(NotFoundError, batches.retrieve, made.id)
            hanging = batches.create(requests=[{"custom_id": "a", "params": {**params, "model": "sim-1+job=hang"}}])
            self.assertIn(batches.cancel(hanging.id).processing_status, ("canceling", "ended"))


class Google(unittest.TestCase):
    def setUp(self):
        from google import genai

        self.client = genai.Client(api_key=KEY, http_options={"base_url": ROOT})
        self.addCleanup(self.client.close)

    def test_files(self):
        from google.genai.errors import ClientError

        files, content = self.client.files, b"0123456789"
        up = files.upload(file=io.BytesIO(content), config={"mime_type": "text/plain", "display_name": "notes"})
        self.assertEqual((up.state.value, up.display_name, up.size_bytes), ("ACTIVE", "notes", len(content)))
        self.assertEqual(files.get(name=up.name).uri, up.uri)
        self.assertIn(up.name, [f.name for f in files.list(config={"page_size": 1})])
        files.delete(name=up.name)
        self.assertRaises(ClientError, files.get, name=up.name)

    def wait(self, batch):
        return until(lambda: self.client.batches.get(name=batch.name), lambda b: b.done)

    def test_batches(self):
        question = mark()
        inline = self.client.batches.create(model="sim-1", src=[{"contents": [{"role": "user", "parts": [{"text": question}]}]}], config={"display_name": "inline"})
        ended = self.wait(inline)
        self.assertEqual(ended.state.value, "JOB_STATE_SUCCEEDED")
        self.assertIn(question, ended.dest.inlined_responses[0].response.text)
        self.assertIn(inline.name, [b.name for b in self.client.batches.list(config={"page_size": 1})])

        content = json.dumps({"key": "a", "request": {"contents": [{"role": "user", "parts": [{"text": question}]}]}}).encode() + b"\n"
        file = self.client.files.upload(file=io.BytesIO(content), config={"mime_type": "application/jsonl", "display_name": "lines"})
        ended = self.wait(self.client.batches.create(model="sim-1", src=file.name, config={"display_name": "file"}))
        self.assertEqual(ended.state.value, "JOB_STATE_SUCCEEDED")
        results = self.client.files.download(file=ended.dest.file_name)
        self.assertIn(question, results.decode())
        self.client.batches.delete(name=inline.name)

        hanging = self.client.batches.create(model="sim-1+job=hang", src=[{"contents": [{"role": "user", "parts": [{"text": question}]}]}], config={"display_name": "hanging"})
        self.client.batches.cancel(name=hanging.name)
        self.assertEqual(self.wait(hanging).state.value, "JOB_STATE_CANCELLED")


if __name__ == "__main__":
    unittest.main(verbosity=1)
