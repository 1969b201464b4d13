"""Actions of the page without a browser: what a form changes, and what its undo button undoes."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memdir.errors import ConflictError, FormatError, NotFoundError
from memdir.interfaces.web import actions, overview
from memdir.interfaces.web.actions import Form
from memdir.interfaces.web.site import Site, Sites
from memdir.records import Draft, Enforce, Kind, Moment, Scope, Surfacing, When
from memdir.store.open import Project, open_project

NAME = "shared"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    made = open_project(root, environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    made.private.write(
        Draft(Kind.PROJECT, "Shared", "How memories are pinned on the page", "Write pinned: true.", NAME)
    )
    yield made
    made.close()


@pytest.fixture
def site(project: Project) -> Site:
    return Site(project.stores, title="work", clock=project.now, project=project)


def submit(site: Site, **fields: str) -> actions.ActionResult:
    """Submit the edit form of the memory with some fields changed."""
    memory = site.stores["private"].read(NAME)
    form = {
        "base": memory.text, "expect": memory.digest, "title": memory.title, "description": memory.description,
        "type": "project", "body": memory.body, "cues": "", "pinned_shown": "1", **fields,
    }  # fmt: skip
    return actions.save_memory(site, "private", NAME, Form({key: [value] for key, value in form.items()}))


def test_the_pinned_box_is_about_the_field_not_the_text(site: Site, project: Project) -> None:
    submit(site, pinned="1")
    assert project.private.read(NAME).header.pinned
    memory = project.private.read(NAME)
    quoted = memory.text.replace("pinned: true\n", 'pinned: "true"\n', 1)
    project.private.edit(NAME, quoted, expect=memory.digest)
    assert project.private.read(NAME).header.pinned
    submit(site)
    memory = project.private.read(NAME)
    assert not memory.header.pinned and memory.body == "Write pinned: true.\n"


def test_a_save_changes_only_the_fields_that_differ(site: Site, project: Project) -> None:
    before = project.private.read(NAME).text
    assert submit(site).undo == () and project.private.read(NAME).text == before
    done = submit(site, title="Pins", cues="pin it\n\nkeep it first")
    memory = project.private.read(NAME)
    assert memory.title == "Pins" and memory.header.cues == ("pin it", "keep it first")
    assert submit(site, title="Pins", cues=" pin  it \nkeep it first").undo == ()
    with pytest.raises(FormatError, match=r"U\+0007"):
        submit(site, title="Pins", cues="be\a")
    assert memory.body == "Write pinned: true.\n"
    actions.undo(site, Form({"change": list(done.undo)}))
    assert project.private.read(NAME).text == before
    with pytest.raises(actions.MergeNeeded) as conflict:
        submit(site, base=before, expect="0" * 64, body="Other text.")
    assert "Other text." in conflict.value.data["mine"]


def test_the_page_edits_when_a_memory_holds_and_refuses_what_is_invalid(site: Site, project: Project) -> None:
    empty = {"when_shown": "1", "when_always": "", "when_paths": "", "when_content": "", "when_enforce": ""}
    before = project.private.read(NAME).text
    assert submit(site, **empty).undo == () and project.private.read(NAME).text == before
    submit(site, **empty | {"when_commands": "push.*--force\n\nrebase -i", "when_enforce": "ask"})
    expected = When(commands=("push.*--force", "rebase -i"), enforce=Enforce.ASK)
    assert project.private.read(NAME).header.when == expected
    for wrong in ({"when_commands": "("}, {"when_enforce": "deny"}, {"when_paths": "/etc/passwd"}):
        with pytest.raises(FormatError):
            submit(site, **empty | wrong)
    assert project.private.read(NAME).header.when == expected
    submit(site, **empty | {"when_always": "false"})
    assert project.private.read(NAME).header.when == When(always=False)


def test_the_page_records_that_a_memory_was_not_useful(site: Site, project: Project) -> None:
    actions.rate_memory(site, "private", NAME, Form({}))
    assert [recall.moment for recall in project.private.recalls(NAME)] == [Moment.NOT_USEFUL]
    project.private.note_recalls([Surfacing(NAME, project.now(), "git push", "s-1", moment=Moment.ACTION)])
    rows = [(row["moment"], row["query"]) for row in overview.show_timeline(site, {})["shown"]]
    assert ("action", "git push") in rows


def test_nothing_is_offered_to_undo_where_nothing_changed(site: Site, project: Project) -> None:
    pin = Form({"pinned": ["1"]})
    assert actions.pin_memory(site, "private", NAME, pin).undo
    assert actions.pin_memory(site, "private", NAME, pin).undo == ()
    assert actions.change_many(site, Form({"do": ["pin"], "key": [f"private/{NAME}"]})).undo == ()


def test_many_memories_are_one_change_of_each_store(site: Site, project: Project) -> None:
    assert project.user is not None
    for number in range(3):
        body = f"Number {number} of the rules."
        project.private.write(
            Draft(
                Kind.FEEDBACK,
                f"Rule {number}",
                f"Deploy rule number {number} of release nights",
                body,
                f"rule-{number}",
            )
        )
    project.user.write(Draft(Kind.USER, "Of me", "Green tea before every morning meeting", "Tea.", "of-me"))
    keys = ["private/rule-0", "private/rule-1", "user/of-me", "private/rule-2"]
    for verb, is_done in (("pin", "pinned"), ("forget", "")):
        done = actions.change_many(site, Form({"do": [verb], "key": keys}))
        private, user = project.private.changes(limit=1)[0], project.user.changes(limit=1)[0]
        assert done.undo == (f"private:{private.id}", f"user:{user.id}") and private.verb == verb
        if is_done:
            assert all(project.private.read(f"rule-{number}").header.pinned for number in range(3))
    assert [header.name for header in project.private.scan()] == [NAME]
    assert project.user.scan() == () and project.user.scope is Scope.USER
    actions.undo(site, Form({"change": list(done.undo)}))
    assert len(project.private.scan()) == 4 and len(project.user.scan()) == 1


def test_a_memory_is_erased_for_good_only_if_the_user_is_sure(site: Site, project: Project) -> None:
    with pytest.raises(ConflictError):
        actions.purge_memory(site, "private", NAME, Form({}))
    assert "cannot reach" in actions.purge_memory(site, "private", NAME, Form({"sure": ["1"]})).text
    assert not project.private.scan() and not project.private.changes(NAME)


def test_the_other_projects_are_listed_opened_and_searched(project: Project, tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    (tmp_path / "api" / ".git").mkdir(parents=True)
    with closing(open_project(tmp_path / "api", environ=variables)) as other:
        other.private.write(Draft(Kind.PROJECT, "Port", "The port of the api on all hosts", "8443", "port"))
    with closing(Sites(project, variables)) as sites:
        (key,) = sites.list_roots()
        assert sites.list_titles() == {"": ("work", "~/work"), key: ("api", "~/api")}
        assert [row.header.name for row in sites.find(key).memories().rows] == ["port"]
        assert [(found, hit.header.name) for found, hit in sites.search("port", "")] == [(key, "port")]
        assert [hit.header.name for _, hit in sites.search("pinned", key)] == [NAME]
        with pytest.raises(NotFoundError):
            sites.find("../x")
