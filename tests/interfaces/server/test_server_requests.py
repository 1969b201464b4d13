"""A property-based client made from the server's own description: no answer 500, nothing of another organisation."""

import re
import warnings
from collections import Counter
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from http_servers import Organisation, memory, serve
from loads import IS_FULL
from memdir.interfaces.server.routes import ENDPOINTS, render_openapi
from postgres import Postgres

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # at its import it opens files without an encoding
    import schemathesis
    from schemathesis.generation import GenerationMode

MARK = "zebra-4711"
REQUESTS = 10_000 if IS_FULL else 400  # five of each kind to each address


@pytest.mark.load
def test_requests_of_every_kind_reach_nothing_of_another_organisation(postgres: Postgres) -> None:
    schema: Any = schemathesis.openapi.from_dict(render_openapi(ENDPOINTS))
    operations = [at.ok() for at in schema.get_all_operations()]
    each = -(-REQUESTS // (2 * len(operations)))
    statuses: Counter[int] = Counter()
    wrong: list[str] = []
    with serve(postgres.database) as port:
        victim, org = Organisation(postgres, port, MARK), Organisation(postgres, port)
        with psycopg.connect(postgres.owner) as db:
            db.execute("SELECT set_config('app.tenant', %s, true)", (str(org.tenant),))
            db.execute("UPDATE memdir.tenants SET max_requests = 100000000")
        ids = [victim.admin("POST", "/v1/stores", {"name": f"{MARK}-store"})[1]["id"], str(victim.tenant)]
        victim.admin("PUT", f"/v1/stores/{ids[0]}/memories/deploys", {"content": memory(body=MARK)})
        victim.admin("POST", "/v1/teams", {"name": MARK})
        org.admin("POST", "/v1/stores", {"name": "main"})
        org.admin("PUT", "/v1/stores/main/memories/deploys", {"content": memory()})
        before = postgres.dump(victim.tenant)
        # Its own ids and names, or another organisation's, in place of what is made up.
        known = {"store": ["main", *ids], "path": ["deploys"], "version": [1, 2], "id": [1, *ids], "member": ids}
        for operation in operations:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

                @settings(
                    max_examples=each,
                    database=None,
                    deadline=None,
                    derandomize=True,
                    suppress_health_check=list(HealthCheck),
                )
                @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
                def run(case: Any, data: Any) -> None:
                    parts = {}
                    for name, value in (case.path_parameters or {}).items():
                        value = data.draw(st.sampled_from([value, *known.get(name, [])]))
                        parts[name] = quote(str(value), safe="/" if name == "path" else "")
                    if case.operation.method == "delete" and parts.get("store") == "main" and "path" not in parts:
                        parts["store"] = "other"
                    path = re.sub(r"\{(\w+)\}", lambda at: parts.get(at[1], "x"), case.operation.path)
                    query = "&".join(
                        f"{quote(str(key))}={quote(str(value))}" for key, value in (case.query or {}).items()
                    )
                    body = None if type(case.body).__name__ == "NotSet" else case.body
                    headers = {
                        key: str(value)
                        for key, value in (case.headers or {}).items()
                        if re.fullmatch(r"[!-~]{1,200}", str(value)) and key == "Idempotency-Key"
                    }
                    try:
                        status, answer, _ = org.admin.raw(
                            case.operation.method.upper(), f"{path}?{query}", body, **headers
                        )
                    except (TypeError, ValueError, UnicodeError):  # what cannot be sent at all
                        return
                    statuses[status] += 1
                    if status >= 500 or MARK.encode() in answer:
                        wrong.append(
                            f"{case.operation.method} {path}?{query} {str(body)[:200]}: {status} {answer[:300]!r}"
                        )

                run()
        assert postgres.dump(victim.tenant) == before
    assert wrong == [], wrong[:5]
    assert statuses.total() >= 0.8 * REQUESTS and min(statuses[200], statuses[400]) > REQUESTS // 20, statuses
