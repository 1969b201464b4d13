"""Requests without a provider's client, for what no client would send."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

MESSAGES_HEAD = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
CHAT_HEAD = {"authorization": "Bearer k", "content-type": "application/json"}


def post(url: str, body: object, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and parsed answer of one POST; a body that is bytes is sent as it is."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answer = send("POST", url, data, headers)
    parsed: dict[str, Any] = json.loads(answer)
    return status, parsed


def send(method: str, url: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), data, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
