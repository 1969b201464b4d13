"""A store of a server (`memdir serve`, docs/server.md) as the remote of a team.

The manifest, `<state>/team-server.json`, lists the store's files by path and digest, as of a revision. Each fetch
requests only the changes and deletions after that revision; the manifest is updated at the end of a sync. A push names
the digest of each file that this client has last seen. If any digest on the server differs, the server writes nothing
and the client merges again, so an outdated folder never overwrites anything. A lost response is harmless, because a
file that already has its new content does not conflict.

Objects are SHA-256 digests, and a head is `EPOCH:REVISION`. A token is sent only to the origin it was issued for;
redirects are not followed, and plain http is used only for this machine.
"""

import json
import re
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from memdir.errors import FormatError, NotFoundError, SettingsError
from memdir.format.frontmatter import digest_of
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.limits import TEAM_ENTRIES, TEAM_FETCH_BYTES, TEAM_LOG
from memdir.project.settings import Environment
from memdir.store.history import MemorySource
from memdir.store.state import MANIFEST, Author, make_author, read_table, read_time, write_table
from memdir.sync.state import PLAIN_MODE, PushResult, PushState, RemoteError, RemoteTree, TeamCommit, TreeEntry
from memdir.text import one_line, shorten

TOKENS = "tokens.json"  # next to the config file: origin -> token
TOKEN_VARIABLE = "MEMDIR_TEAM_TOKEN"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PUSH_BYTES, _PUSH_FILES = 2_000_000, 500  # of one request
_VERSIONS = 100  # versions read of one file, and in one page of the log
_STORE = re.compile(r"[^/?#\s]{1,200}")


@dataclass(frozen=True, slots=True)
class ServerStore:
    """A store, as described by the server."""

    id: str
    name: str
    access: str
    scope: str = "team"


class ServerApi:
    """A server's HTTP API with one credential. Requests end by `deadline`, a monotonic time."""

    def __init__(self, address: str, token: str, *, deadline: float) -> None:
        self.address, self._token, self._deadline = check_server(address), token, deadline
        handlers: list[Any] = [_NoRedirect, HTTPSHandler(context=ssl.create_default_context())]
        if urlsplit(self.address).hostname in _LOCAL:
            handlers.append(ProxyHandler({}))
        self._opener = build_opener(*handlers)

    def ask(
        self, method: str, path: str, query: Mapping[str, object] | None = None, *, body: object = None, key: str = ""
    ) -> tuple[int, Any]:
        """Send a request and return the status and JSON. Raises RemoteError for status 500 or higher, or no response."""
        suffix = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers |= {"Idempotency-Key": key} if key else {}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode("ascii"), "application/json"
        request = Request(f"{self.address}/v1/{path}{'?' if suffix else ''}{suffix}", data, headers, method=method)
        left = self._deadline - monotonic()
        if left <= 0:
            raise RemoteError("the server timed out", hint="retry with a longer --timeout")
        try:
            with self._opener.open(request, timeout=left) as answer:
                return answer.status, _parse(answer.read(TEAM_FETCH_BYTES + 1))
        except HTTPError as error:
            with error:
                reply = _parse(error.read(TEAM_FETCH_BYTES + 1))
            if error.code >= 500:
                raise RemoteError(f"server error: {find_message(reply) or error.code}") from None
            return error.code, reply
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RemoteError(f"cannot reach the server: {shorten(one_line(str(reason)), 200)}") from None

    def read(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """Return the JSON of a response with status 200. Raises SettingsError if the request is refused."""
        status, answer = self.ask("GET", path, query)
        if status == 429:
            raise RemoteError(f"the server is rate limiting requests: {find_message(answer)}")
        if status == 401:
            hint = f"`memdir team join URL` takes a new token, or set {TOKEN_VARIABLE}"
            raise SettingsError("the server rejected the token", key="token", hint=hint)
        if status != 200:
            message = f"rejected by the server: {find_message(answer) or status}"
            raise SettingsError(message, key="server", hint="`memdir team status` shows the server and the store")
        return answer

    def list_stores(self) -> list[ServerStore]:
        rows = self.read("stores").get("stores", [])
        return [ServerStore(*(str(row.get(key)) for key in ("id", "name", "access", "scope"))) for row in rows]


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _parse(data: bytes) -> Any:
    if len(data) > TEAM_FETCH_BYTES:
        raise FormatError(f"the server's response exceeds {TEAM_FETCH_BYTES // 1_048_576} MiB")
    try:
        table = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise RemoteError("not a memdir server", hint="check the address") from None
    return table if isinstance(table, dict) else {}


def find_message(answer: Mapping[str, Any]) -> str:
    error = answer.get("error")
    parts = (str(error.get(key) or "") for key in ("message", "hint")) if isinstance(error, dict) else ()
    return shorten(one_line("; ".join(filter(None, parts))), 300)


def check_server(address: str) -> str:
    """Return a server's URL without a trailing slash. Raises SettingsError if it is invalid."""
    try:
        parts = urlsplit(address)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
        is_plain = bool(parts.hostname) and not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        is_safe = is_plain = False
    if not is_safe or not is_plain or one_line(address) != address:
        hint = "https://host, without name or password in it; http only for a server on this machine"
        raise SettingsError(f"{shorten(one_line(address), 200)!r} is not a valid server URL", key="server", hint=hint)
    return address.rstrip("/")


def find_token(environment: Environment, address: str) -> str:
    """Return the token for a server, from the environment or stored when joining, or ""."""
    parts = urlsplit(address)
    stored = read_table(environment.config_file.parent, TOKENS).get(f"{parts.scheme}://{parts.netloc}")
    return environment.keys.get(TOKEN_VARIABLE, "") or (stored if isinstance(stored, str) else "")


def write_token(environment: Environment, address: str, token: str) -> None:
    parts, folder = urlsplit(address), environment.config_file.parent
    write_table(folder, TOKENS, {**read_table(folder, TOKENS), f"{parts.scheme}://{parts.netloc}": token})


def choose_store(api: ServerApi, wanted: str) -> ServerStore:
    """Return the store to join, by name or ID, or else the only team store that the token can read."""
    stores = api.list_stores()
    matches = [store for store in stores if (wanted in (store.id, store.name) if wanted else store.scope == "team")]
    if len(matches) != 1:
        names = ", ".join(sorted(store.name for store in stores)) or "none"
        what = f"there is no store {wanted}" if wanted else "the server has several stores, or none for teams"
        raise NotFoundError(what, name=wanted, hint=f"choose one with --store; this token can read: {names}")
    return matches[0]


def make_store(api: ServerApi, name: str) -> None:
    """Create a team store unless it exists. Raises SettingsError if the token does not allow it."""
    status, answer = api.ask("POST", "stores", body={"name": name, "scope": "team"})
    if status not in (201, 409):
        hint = "an admin's token may; `memdir team join URL` takes part in a store that is there"
        raise SettingsError(f"rejected by the server: {find_message(answer) or status}", key="store", hint=hint)


class ServerRemote:
    """A store of a server; `folder` contains its manifest."""

    def __init__(self, api: ServerApi, store: str, folder: Path) -> None:
        if not _STORE.fullmatch(store):
            raise SettingsError(f"{one_line(store)!r} is not a valid store name", key="store")
        self._api, self._path, self._folder = api, f"stores/{quote(store, safe='')}", folder
        table = read_table(folder, MANIFEST)
        rows = table.get("files")
        self._rows: dict[str, tuple[str, int]] = {}  # path -> digest, size
        self._head = str(table.get("head") or "") if isinstance(rows, dict) else ""
        if self._head and isinstance(rows, dict):
            self._rows = {path: (str(sha), int(size)) for path, (sha, size) in rows.items()}
        self._texts: dict[str, bytes] = {}
        self._authors: dict[str, Author] = {}
        self._conflicts = 0

    def hash(self, data: bytes) -> str:
        return digest_of(data)

    def find_head(self) -> str:
        return self.fetch().head

    def fetch(self) -> RemoteTree:
        # After repeated conflicts, fetch everything: the server may have been restored from a backup.
        epoch, _, revision = self._head.partition(":") if self._conflicts < 3 else ("", "", "")
        answer = self._api.read(f"{self._path}/files", {"since": revision or None, "epoch": epoch or None})
        rows = {} if answer.get("reset", True) else dict(self._rows)
        for row in answer.get("files", []):
            path, digest, content = str(row["path"]), row.get("content_sha256"), row.get("content")
            self._authors[path] = _make_author(row)
            if digest is None:
                rows.pop(path, None)
                continue
            data = str(content or "").encode("utf-8", "surrogatepass")
            rows[path] = (str(digest), len(data))
            if digest_of(data) == digest:
                self._texts[str(digest)] = data
        if len(rows) > TEAM_ENTRIES:
            raise FormatError(f"the store contains more than {TEAM_ENTRIES:,} files; no files were imported")
        self._rows, self._head = rows, f"{int(answer['epoch'])}:{int(answer['revision'])}"
        tree = {path: TreeEntry(PLAIN_MODE, digest, size) for path, (digest, size) in rows.items()}
        return RemoteTree(self._head, tree, is_ours=True)

    def find_common(self, known: str, head: str) -> Mapping[str, TreeEntry] | None:
        """Return {} if the server was restored from a backup, so that missing files count as lost, not deleted. A newer
        epoch means that something was purged, so missing files were deleted."""
        if not known:
            return None
        before, now = (tuple(map(int, head_text.split(":"))) for head_text in (known, head))
        return None if now >= before else {}

    def read(self, shas: Iterable[str]) -> dict[str, bytes]:
        for sha in sorted({sha for sha in shas if sha} - self._texts.keys()):
            status, answer = self._api.ask("GET", f"{self._path}/contents/{quote(sha)}")
            data = str(answer.get("content") or "").encode("utf-8", "surrogatepass")
            if status == 200 and digest_of(data) == sha:
                self._texts[sha] = data
        return {sha: self._texts[sha] for sha in shas if sha in self._texts}

    def push(
        self, tree: RemoteTree, files: Mapping[str, bytes | None], author: Author, now: datetime, message: str
    ) -> tuple[str, PushState]:
        """Send the files in several requests, the index last. The head stays: the next fetch gets changes by others."""
        rows = []
        for path, data in sorted(files.items(), key=lambda item: item[0] == INDEX_FILE):
            known = tree.tree.get(path)
            content = None if data is None else data.decode("utf-8", "replace")
            rows.append({"path": path, "before": known.sha if known else None, "content": content})
        try:
            for batch in _split_batches(rows):
                pushed = self._push(batch, message)
                if pushed.answer is not PushResult.DONE:
                    return tree.head, pushed
        except RemoteError as error:
            return tree.head, PushState(PushResult.SILENT, str(error))
        return tree.head, PushState(PushResult.DONE)

    def _push(self, rows: Sequence[Mapping[str, object]], message: str) -> PushState:
        key = digest_of(json.dumps(rows, sort_keys=True).encode("ascii"))[:40]
        body = {"files": rows, "verb": "sync", "why": shorten(message.strip(), 300)}
        status, answer = self._api.ask("POST", f"{self._path}/files", body=body, key=key)
        if status == 200:
            return PushState(PushResult.DONE)
        if status == 409:
            self._conflicts += 1
            return PushState(PushResult.QUICKER, find_message(answer))
        if status == 202:
            # If one file needs review, the server holds them all. So send them one by one, without the index.
            topics = [row for row in rows if row["path"] != INDEX_FILE]
            parts = [self._push([row], message) for row in topics] if len(topics) > 1 else []
            if any(part.answer is PushResult.QUICKER for part in parts):
                return PushState(PushResult.QUICKER)
            names = [
                str(row["path"]) for row, part in zip(topics, parts, strict=False) if part.answer is not PushResult.DONE
            ]
            names = names or [str(row["path"]) for row in topics]
            return PushState(PushResult.DENIED, f"on the server this needs review: {shorten(', '.join(names), 200)}")
        reason = find_message(answer) or str(status)
        is_busy = status == 429 and "quota" not in str(answer.get("error"))
        return PushState(PushResult.SILENT if is_busy else PushResult.DENIED, f"the server refused: {reason}")

    def find_versions(self, head: str, after: str, paths: Collection[str]) -> dict[str, set[str]]:
        since = int(after.partition(":")[2] or 0) if after.partition(":")[0] == head.partition(":")[0] else 0
        versions: dict[str, set[str]] = {}
        for path in paths:
            query = {"path": path.removesuffix(".md"), "limit": _VERSIONS}
            status, answer = self._api.ask("GET", f"{self._path}/versions", query)
            for row in answer.get("versions", []) if status == 200 else ():
                files = [file for file in row["files"] if file["path"] == path and int(row["version"]) > since]
                versions.setdefault(path, set()).update(
                    str(sha) for file in files for sha in (file["before"], file["after"]) if sha
                )
        return versions

    def find_authors(self, head: str, after: str) -> dict[str, Author]:
        return self._authors

    def find_sources(self, head: str, after: str) -> dict[str, MemorySource]:
        return {}  # the versions of a team's store already have authors and dates

    def keep(self, head: str) -> None:
        write_table(
            self._folder, MANIFEST, {"head": self._head, "files": {path: list(row) for path, row in self._rows.items()}}
        )

    def read_log(self, head: str) -> tuple[TeamCommit, ...]:
        """Return the store's versions, newest first."""
        commits: list[TeamCommit] = []
        before: int | None = None
        while len(commits) < TEAM_LOG:
            answer = self._api.read(f"{self._path}/versions", {"limit": _VERSIONS, "before": before})
            commits += map(self._make_commit, answer.get("versions", []))
            before = answer.get("next")
            if before is None:
                break
        return tuple(commits)

    def _make_commit(self, row: Mapping[str, Any]) -> TeamCommit:
        changes = {}
        for file in row["files"]:
            how = "added" if file["before"] is None else "deleted" if file["after"] is None else "changed"
            changes[str(file["path"])] = how
        return TeamCommit(str(row["version"]), _make_author(row), changes)

    def read_texts(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return texts by version and path; `VERSION^` is the previous version."""
        versions: dict[str, Any] = {}
        digests: dict[tuple[str, str], str] = {}
        for spec, path in wanted:
            number = spec.rstrip("^")
            if number not in versions:
                versions[number] = self._api.read(f"{self._path}/versions/{quote(number)}")
            row: Any = next((file for file in versions[number]["files"] if file["path"] == path), {})
            if sha := row.get("before" if spec.endswith("^") else "after"):
                digests[spec, path] = str(sha)
        texts = self.read(digests.values())
        return {spec: texts[sha].decode("utf-8", "surrogateescape") for spec, sha in digests.items() if sha in texts}


def _make_author(row: Mapping[str, Any]) -> Author:
    return make_author(str(row.get("author") or row.get("actor") or ""), "", read_time(row.get("at")))


def _split_batches(rows: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Split rows into batches within the server's request limits."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        more = len(row["content"] or "") * 2 + 200
        if batch and (size + more > _PUSH_BYTES or len(batch) >= _PUSH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += more
    if batch:
        yield batch
