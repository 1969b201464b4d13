"""Data for the page: the demo's three days, with a project around it, things to review and a preview of a dream."""

import os
import subprocess
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memdir.dream import preview_dream
from memdir.interfaces.chat_commands import play_in
from memdir.interfaces.cli import run
from memdir.records import Draft, InboxItem, InboxKind, Kind, Origin, Save, Surfacing
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.store.open import Project, open_project
from memdir.verify.check import verify

NOW = datetime(2026, 3, 9, 10, 30, tzinfo=UTC)
_SLACK = """Before anyone promotes a build the canary has to be green for 30 minutes, no exceptions. If it is not, roll back with \
deploy/rollback.sh and tell me. I sign off production builds until the release captain is back."""


def plant_demo(home: Path) -> Project:
    """The demo's memory in this home, opened on the last of its days."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        root = play_in(home, color="never", run_verb=run)
    (root / ".git").rmdir()
    _make_repository(root)
    project = open_project(root, environ={"HOME": str(home), "PATH": os.defpath, "MEMDIR_NOW": NOW.isoformat()})
    store = project.private
    for draft in _DRAFTS:
        store.write(draft)
    store.write(
        Draft(
            Kind.REFERENCE,
            "Latency board",
            "The board the on-call watches for request latency",
            "See grafana.",
            "team/latency",
        )
    )
    if project.user is not None:
        project.user.write(
            Draft(
                Kind.FEEDBACK,
                "Tables for comparisons",
                "A table rather than prose for more than two things",
                "A table.",
            )
        )
    rows = [
        Surfacing(
            "deploy-on-tuesdays-only", NOW - timedelta(days=day), f"may I deploy on day {day}?", "talk-1", "local", 1.2
        )
        for day in range(8, -1, -1)
    ]
    store.note_recalls(
        [
            *rows,
            Surfacing(
                "staging-is-reset", NOW - timedelta(days=12), "is staging empty on Monday?", "talk-2", "local", 0.9
            ),
        ]
    )
    store.inbox_add(_make_items())
    verify(store, root, now=NOW)
    preview_dream(store, now=NOW)
    return project


def _make_repository(root: Path) -> None:
    for path in ("deploy/release.sh", "deploy/freeze.sh", "ops/CAPTAIN"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("#!/bin/sh\necho one\necho two\n", encoding="utf-8")
    git = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-q", "-m", "begin"],
        ["mv", "deploy/freeze.sh", "ops/freeze.sh"],
    ):
        subprocess.run([*git, *command], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "freeze belongs to operations"], check=True)


_DEPLOYS = (
    "We deploy on Tuesdays only.\n\n**Why:** support is staffed then.\n\n**How to apply:** say no to a deploy on another day "
    "and offer the next Tuesday.\n\nA release goes out with `deploy/release.sh`, and `deploy/freeze.sh` says whether it may. "
    "Hot fixes need a word from the captain named in `ops/CAPTAIN`; see [[staging-is-reset]]."
)
_DRAFTS = (
    Draft(
        Kind.PROJECT,
        "Deploy on Tuesdays only",
        "We deploy on Tuesdays only, because support is staffed then",
        _DEPLOYS,
        cues=("may I deploy today", "release day", "ship a hot fix"),
    ),
    Draft(
        Kind.PROJECT,
        "Staging is reset",
        "The staging database is emptied on Sundays at 23:00",
        "The staging database is emptied every Sunday at 23:00; copy what you need before. It goes with [[deploy-on-tuesdays-only]].",
        name="staging-is-reset",
        pinned=True,
    ),
    Draft(Kind.PROJECT, "Tuesday deploys", "Deploys happen on Tuesdays only because support is staffed", _DEPLOYS),
)


def _make_items() -> list[InboxItem]:
    texts = (
        (Kind.FEEDBACK, "Canary must be green for 30 minutes", "A build is promoted only after 30 minutes of green canary",
         "Before a build is promoted, the canary has to be green for 30 minutes.\n\n**How to apply:** wait for it, or roll back with "
         "`deploy/rollback.sh`."),
        (Kind.REFERENCE, "Roll back with deploy/rollback.sh", "How a bad build is rolled back: deploy/rollback.sh", "Use `deploy/rollback.sh`."),
        (Kind.PROJECT, "Production builds need a sign-off", "Production builds need a sign-off until the captain is back", "They need a sign-off."),
    )  # fmt: skip
    why = "14 of its 19 words stand in text that you pasted, not in what you wrote"
    evidence = render_evidence([InboxQuote(_SLACK, "pasted text", "8")])
    origin = Origin("extractor", "by model", "talk-1")
    made = []
    for number, (kind, title, description, body) in enumerate(texts):
        edits = render_edits([Save(Draft(kind, title, description, body))])
        payload = {"edits": edits, "evidence": evidence}
        at = NOW - timedelta(minutes=20)
        made.append(InboxItem(InboxKind.MEMORY, title, why, at, f"demo:{number}", "", origin, payload))
    return made
