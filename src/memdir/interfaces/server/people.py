"""What an organisation's admins see and change: members, groups of the provider, teams, tokens, audit log and usage."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

from memdir.errors import NotFoundError
from memdir.interfaces.server import access
from memdir.interfaces.server.api import PAGE, Answer, Call, cut_page
from memdir.interfaces.server.schemas import AUDIT, MEMBER, TEAM, TOKEN_ROW, USAGE, Json, Schema, table
from memdir.postgres.database import clean_text


def list_members(call: Call) -> Answer:
    columns = "member, issuer, subject, name, role"
    (member_rows,) = call.ask(f"SELECT {columns} FROM memdir.members WHERE tenant = %(tenant)s")
    return 200, cut_page(call, "members", [_make_row(MEMBER, row) for row in member_rows], "id")


def make_member(call: Call) -> Answer:
    member, body = uuid4(), call.body
    values = {"issuer": body["issuer"], "subject": body["subject"]}
    values |= {"name": body.get("name", ""), "role": body["role"]}
    access.insert_row(call.database, call.caller.tenant, "members", member=member, **values)
    return 201, {"id": str(member), **values}


def change_member(call: Call) -> Answer:
    update = "UPDATE memdir.members SET role = %(role)s WHERE tenant = %(tenant)s AND member = %(member)s"
    columns = "RETURNING member, issuer, subject, name, role"
    values = {"role": call.body["role"], "member": UUID(call.params["id"])}
    (updated,) = call.database.write(call.caller.tenant, f"{update} {columns}", **values)
    if not updated:
        raise NotFoundError("member not found", name=call.params["id"])
    return 200, _make_row(MEMBER, updated[0])


def delete_member(call: Call) -> Answer:
    return _delete(call, "members", member=UUID(call.params["id"]))


def list_groups(call: Call) -> Answer:
    (rows,) = call.ask("SELECT name, role FROM memdir.groups WHERE tenant = %(tenant)s")
    return 200, cut_page(call, "groups", [{"name": name, "role": role} for name, role in rows], "name")


def make_group(call: Call) -> Answer:
    row = {"name": call.body["name"], "role": call.body["role"]}
    access.insert_row(call.database, call.caller.tenant, "groups", **row)
    return 201, row


def delete_group(call: Call) -> Answer:
    return _delete(call, "groups", name=clean_text(call.query["name"]))


def list_teams(call: Call) -> Answer:
    teams, members = call.ask(
        "SELECT team, name FROM memdir.teams WHERE tenant = %(tenant)s ORDER BY name",
        "SELECT team, member FROM memdir.team_members WHERE tenant = %(tenant)s",
    )
    mine = [row for row in teams if call.caller.rules_organisation or row[0] in call.caller.teams]
    listed = [_make_row(TEAM, (*row, [str(member) for team, member in members if team == row[0]])) for row in mine]
    return 200, cut_page(call, "teams", listed, "name")


def make_team(call: Call) -> Answer:
    team = uuid4()
    access.insert_row(call.database, call.caller.tenant, "teams", team=team, name=call.body["name"])
    return 201, {"id": str(team), "name": call.body["name"], "members": []}


def delete_team(call: Call) -> Answer:
    return _delete(call, "teams", team=UUID(call.params["id"]))


def join_team(call: Call) -> Answer:
    pair = {"team": UUID(call.params["id"]), "member": UUID(call.params["member"])}
    access.insert_row(call.database, call.caller.tenant, "team_members", **pair)
    return 201, {key: str(id) for key, id in pair.items()}


def leave_team(call: Call) -> Answer:
    pair = {"team": UUID(call.params["id"]), "member": UUID(call.params["member"])}
    access.delete_row(call.database, call.caller.tenant, "team_members", **pair)
    return 200, {key: str(id) for key, id in pair.items()}


def list_tokens(call: Call) -> Answer:
    columns = "token, name, access, stores, member, expires"
    where = "tenant = %(tenant)s AND revoked IS NULL ORDER BY created"
    (token_rows,) = call.ask(f"SELECT {columns} FROM memdir.tokens WHERE {where}")
    return 200, cut_page(call, "tokens", [_make_row(table(TOKEN_ROW), row) for row in token_rows], "id")


def make_token(call: Call) -> Answer:
    body, stores = call.body, [UUID(store_id) for store_id in call.body.get("stores", ())]
    member = None if body.get("member") is None else UUID(body["member"])
    id, secret, expires = access.create_token(
        call.database, call.caller.tenant, name=body["name"], access=body["access"], now=call.context.clock(),
        days=body.get("days", access.TOKEN_DAYS), stores=stores, member=member,
    )  # fmt: skip
    row = (id, body["name"], body["access"], stores, member, expires)
    return 201, _make_row(table(TOKEN_ROW), row) | {"token": secret}


def revoke_token(call: Call) -> Answer:
    update = (
        "UPDATE memdir.tokens SET revoked = now() WHERE tenant = %(tenant)s AND token = %(token)s AND revoked IS NULL"
    )
    (revoked,) = call.database.write(call.caller.tenant, f"{update} RETURNING token", token=UUID(call.params["id"]))
    if not revoked:
        raise NotFoundError("token not found", name=call.params["id"])
    return 200, {"deleted": call.params["id"]}


def list_audit(call: Call) -> Answer:
    (entries,) = call.ask(
        "SELECT id, at, actor, action, target, status FROM memdir.audit WHERE tenant = %(tenant)s"
        f" AND id < %(before)s ORDER BY id DESC LIMIT {call.query.get('limit', PAGE)}",
        before=clean_text(call.query.get("before") or "g"),
    )
    return 200, {"entries": [_make_row(AUDIT, row) for row in entries]}


def show_usage(call: Call) -> Answer:
    limits, used = call.ask(
        "SELECT max_stores, max_memories, max_bytes, max_requests, history_days, audit_days FROM memdir.tenants"
        " WHERE tenant = %(tenant)s",
        "SELECT count(*), coalesce(sum(memories), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM memdir.stores"
        " WHERE tenant = %(tenant)s",
    )
    return 200, _make_row(USAGE, (*used[0], *limits[0]))


def _delete(call: Call, from_table: str, **key: object) -> Answer:
    access.delete_row(call.database, call.caller.tenant, from_table, **key)
    return 200, {"deleted": str(next(iter(key.values())))}


def _make_row(schema: Schema, row: Sequence[object]) -> Json:
    return {key: _make_value(value) for key, value in zip(schema["properties"], row, strict=True)}


def _make_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, list | tuple):
        return [_make_value(item) for item in value]
    return str(value) if isinstance(value, UUID) else value
