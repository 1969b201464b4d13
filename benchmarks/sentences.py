"""Memory files of our own making, as many as wanted and always the same: what `scale.py` measures on.

Every file has an id of its own in its name and text. Ten made-up product names stand in eight files each, whatever the
size: queries for them match the same number of files at 100 and at 100,000. The ordinary queries use ordinary words,
whose matches grow with the directory.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

PLANTED = "zorbelin quantovar mirellith drapsen vokturn halbrix pentorsa luwendo skarabim tovelline".split()
PER_NAME = 8
ODDEST = "The ferry to Lindholm leaves at six and takes no bicycles after the thaw."  # the oldest file of all
ODDEST_QUERY = "when does the boat to Lindholm depart?"

_PARTS = """
billing search login invoice upload webhook scheduler cache parser exporter importer mailer dashboard gateway ledger
queue router renderer checkout catalogue inventory payroll calendar notifier recorder thumbnail translator firewall
backup telemetry onboarding archive compiler installer updater profile wallet shipment warehouse newsletter forum
""".split()
_PEOPLE = "designers reviewers accountants operators testers translators interns contractors editors analysts".split()
_CHANGES = """
prefers rejects postpones rewrites documents measures renames deletes migrates freezes splits merges reviews audits
encrypts compresses restarts throttles mirrors publishes
""".split()
_THINGS = """
tables forms tokens certificates screenshots totals headers footers drafts tickets branches releases reports budgets
contracts fonts colours icons schemas queries batches retries timeouts quotas permissions passwords receipts refunds
coupons taxes addresses parcels pallets barcodes lessons recipes gardens bicycles concerts museums trains
""".split()
_WHEN = """
before every release|after the spring audit|on Monday mornings|during the night shift|when the quarter closes|at the
start of a sprint|once the tests are green|whenever the disk is nearly full|until the contract ends|only by request
""".replace("\n", " ").split("|")
_WHY = """
the last outage cost a whole weekend|the lawyers asked for it|customers had complained about it twice|the old way was
slower|nobody could read the numbers|the auditors want a trail|two teams had overwritten each other|the vendor changed
its prices|the printer could not cope|it kept the demo from failing
""".replace("\n", " ").split("|")
_KINDS = ("project", "feedback", "reference", "user")


def make_query(random_: random.Random) -> str:
    """A question in ordinary words; more files answer it, the more there are."""
    forms = ("how do we handle {0} in the {1}?", "why are {0} {2} for the {1}?", "which {0} go through the {1} first?")
    part, thing, change = random_.choice(_PARTS), random_.choice(_THINGS), random_.choice(_CHANGES)
    return random_.choice(forms).format(thing, part, change.removesuffix("s") + "ed")


def make_queries(count: int) -> list[str]:
    random_ = random.Random(7)
    return [make_query(random_) for _ in range(count)]


def make_texts(count: int) -> Iterator[tuple[str, str]]:
    """File name and text, the oldest first."""
    random_ = random.Random(3)
    planted = _plan_names(count)
    yield "oldest-0.md", _render("Ferry to Lindholm", "When the ferry leaves, and for whom", ODDEST, "reference")
    for number in range(1, count):
        part, thing, other = random_.choice(_PARTS), random_.choice(_THINGS), random_.choice(_THINGS)
        change, people = random_.choice(_CHANGES), random_.choice(_PEOPLE)
        title = f"{part.capitalize()} {thing} {number}"
        description = f"The {part} team {change} {thing} {random_.choice(_WHEN)} (note m{number})"
        lines = [
            f"In the {part}, one {change} the {thing} {random_.choice(_WHEN)}, and the {people} keep the {other}.",
            f"**Why:** {random_.choice(_WHY)}.",
            f"**How to apply:** ask the {random_.choice(_PEOPLE)} about r{random_.randrange(10**6)} first.",
        ]
        if number in planted:
            lines.append(f"Known outside as {planted[number].capitalize()}.")
        yield f"{part}-{thing}-{number}.md", _render(title, description, "\n\n".join(lines), _KINDS[number % 4])


def write_files(folder: Path, count: int) -> None:
    """The files on disk, each a minute younger than the one before it."""
    folder.mkdir(parents=True)
    for number, (name, text) in enumerate(make_texts(count)):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        when = 1_600_000_000 + number * 60
        os.utime(path, (when, when))


def _plan_names(count: int) -> dict[int, str]:
    """Which files carry which made-up name: spread over the whole directory, each file at most one."""
    places = random.Random(5).sample(range(1, count), min(len(PLANTED) * PER_NAME, count - 1))
    return {place: PLANTED[number % len(PLANTED)] for number, place in enumerate(places)}


def _render(title: str, description: str, body: str, kind: str) -> str:
    return f"---\nname: {title}\ndescription: {description}\ntype: {kind}\n---\n\n{body}\n"
