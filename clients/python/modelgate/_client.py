"""A small client: JSON in, JSON or a stream of JSON out."""

import json
import urllib.error
import urllib.request

from ._headers import headers


class ModelgateError(Exception):
    """An error answer, or an error inside a stream.

    ``status`` is the HTTP status, ``body`` what was answered (parsed where it
    is JSON) and ``headers`` the answer's headers, which hold the request id.
    """

    def __init__(self, status, body, answer_headers):
        error = body.get("error") if isinstance(body, dict) else None
        message = error.get("message") if isinstance(error, dict) else None
        super().__init__(f"{status}: {message or body}")
        self.status = status
        self.body = body
        self.headers = answer_headers


class Modelgate:
    """A client of the gateway at ``base_url``, which ends in /v1.

    The options are those of ``headers`` and hold for every request.
    ``timeout`` is in seconds.
    """

    def __init__(self, *, base_url="http://127.0.0.1:8787/v1", timeout=600, **options):
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._options = options
        self.chat = _Group(completions=_Route(self, "/chat/completions"))
        self.completions = _Route(self, "/completions")
        self.embeddings = _Route(self, "/embeddings")
        self.messages = _Route(self, "/messages")
        self.responses = _Route(self, "/responses")

    def with_options(self, **options):
        """Return a client with further or other options."""
        return Modelgate(base_url=self._base_url, timeout=self._timeout, **{**self._options, **options})

    def post(self, path, body):
        """Send body to path, which is appended to the base address. The answer
        is parsed JSON, or an iterator of it when the answer is a stream."""
        data = json.dumps(body).encode()
        return self._send("POST", path, data)

    def get(self, path):
        """Ask for path and return the parsed answer."""
        return self._send("GET", path, None)

    def _send(self, method, path, data):
        request = urllib.request.Request(self._base_url + path, data=data, method=method)
        for name, value in headers(**self._options).items():
            request.add_header(name, value)
        if data is not None:
            request.add_header("content-type", "application/json")
        try:
            answer = urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise ModelgateError(error.code, _parsed(error.read()), error.headers) from None
        if answer.headers.get_content_type() == "text/event-stream":
            return _events(answer)
        with answer:
            return _parsed(answer.read())


class _Group:
    def __init__(self, **routes):
        self.__dict__.update(routes)


class _Route:
    def __init__(self, client, path):
        self._client, self._path = client, path

    def create(self, **params):
        """Send params as the body. With stream=True the result is an iterator."""
        return self._client.post(self._path, params)


def _parsed(raw):
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def _events(answer):
    """Yield the data of each event. An error event is raised."""
    lines = []
    with answer:
        for raw in answer:
            line = raw.decode().rstrip("\r\n")
            if line.startswith("data:"):
                lines.append(line[5:].removeprefix(" "))
            elif line == "" and lines:
                data, lines = "\n".join(lines), []
                if data == "[DONE]":
                    return
                event = json.loads(data)
                if isinstance(event, dict) and event.get("error"):
                    raise ModelgateError(answer.status, event, answer.headers)
                yield event
