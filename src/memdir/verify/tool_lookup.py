"""Scripts, targets, flags, packages and branches that memories name."""

import re
from collections.abc import Iterator
from functools import cached_property

from memdir.gitroot import run_git
from memdir.limits import VERIFY_GIT_SECONDS
from memdir.verify import past
from memdir.verify.ground import Ground
from memdir.verify.manifests import fold_package
from memdir.verify.past import Gone
from memdir.verify.project import Project
from memdir.verify.records import Checked, Claim, ClaimKind, Status

_MERGES = 5_000  # looked at for a branch's name
_MANIFESTS = (
    "package.json", "Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "pyproject.toml", "setup.py",
    "setup.cfg", "requirements*.txt", "Cargo.toml", "go.mod", "Gemfile", "composer.json",
)  # fmt: skip


class ToolLookup:
    def __init__(self, ground: Ground) -> None:
        self.ground, self.project = ground, ground.project

    def check_script(self, claim: Claim) -> Checked:
        if where := self.ground.manifests.scripts.get(claim.extra):
            return Checked(claim, Status.PRESENT, where=where)
        return self._say_gone(claim, self._lines_gone.get(claim.extra))

    def check_package(self, claim: Claim) -> Checked:
        if where := self.ground.manifests.packages.get(fold_package(claim.text)):
            return Checked(claim, Status.PRESENT, where=where)
        if found := self.ground.lookup.find(claim.text.replace("-", "_")).code:
            return Checked(claim, Status.PRESENT, where=found[0])
        return self._say_gone(claim, self._lines_gone.get(claim.text))

    def check_flag(self, claim: Claim) -> Checked:
        if where := self.ground.lookup.flags.get(claim.text):
            return Checked(claim, Status.PRESENT, where=where)
        return self._say_gone(claim, self._flags_gone.get(claim.text))

    def check_branch(self, claim: Claim) -> Checked:
        if claim.text in self._branches:
            return Checked(claim, Status.PRESENT)
        for line in self._merges:
            commit, _, subject = line.partition(" ")
            if f"branch '{claim.text}'" in subject or subject.endswith(f"/{claim.text}"):
                return Checked(claim, Status.GONE, commit=commit, note=f"the branch was merged in {commit} and is gone")
        return Checked(claim, Status.UNKNOWN, note="no such branch here")

    def _say_gone(self, claim: Claim, gone: Gone | None) -> Checked:
        if gone is None or not self.ground.is_whole:
            return self.ground.not_found(claim)
        return Checked(claim, Status.GONE, commit=gone.commit)

    @cached_property
    def _branches(self) -> frozenset[str]:
        return frozenset(read_branches(self.project))

    @cached_property
    def _merges(self) -> tuple[str, ...]:
        """The newest merges, each with its commit and subject."""
        asked = ("log", "--merges", f"--max-count={_MERGES}", "--no-show-signature", "--format=%h %s", "HEAD", "--")
        code, output = run_git(self.project.root, asked, VERIFY_GIT_SECONDS) if self.ground.has_past else (1, "")
        return tuple(output.splitlines()) if code == 0 else ()

    @cached_property
    def _lines_gone(self) -> dict[str, Gone]:
        """Scripts and packages that some commit took out of the manifests."""
        wanted: dict[str, re.Pattern[bytes]] = {}
        for claim in self.ground.claims:
            if claim.kind is ClaimKind.COMMAND and claim.extra not in self.ground.manifests.scripts:
                wanted.update(_spell_script(claim.extra))
            elif claim.kind is ClaimKind.PACKAGE:
                wanted[claim.text] = _spell_package(claim.text)
        return past.read_lines(self.project.root, wanted, self.ground.ends, _MANIFESTS) if self.ground.has_past else {}

    @cached_property
    def _flags_gone(self) -> dict[str, Gone]:
        """Flags that some commit took out of code where they were quoted, as whatever parses flags has them."""
        missing = {at.text for at in self.ground.claims if at.kind is ClaimKind.FLAG} - set(self.ground.lookup.flags)
        wanted = {flag: re.compile(rb"[\"'`(|,]" + re.escape(flag.encode()) + rb"(?![\w-])") for flag in missing}
        return past.read_lines(self.project.root, wanted, self.ground.ends) if self.ground.has_past else {}


def read_branches(project: Project) -> Iterator[str]:
    """The branches of this repository and those known of its remotes, these without the remote's name too."""
    if project.is_git:
        arguments = ("for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes")
        _, output = run_git(project.root, arguments, VERIFY_GIT_SECONDS)
        for line in output.splitlines():
            kind, _, name = line.removeprefix("refs/").partition("/")
            yield name
            if kind == "remotes":
                yield name.partition("/")[2]


def _spell_script(extra: str) -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """How a script stands in its manifest; a module stands in none."""
    tool, _, name = extra.partition(":")
    spelled = re.escape(name.encode("utf-8", "replace"))
    if tool == "npm":
        yield extra, re.compile(rb"\"" + spelled + rb"\"[ \t]*:")
    elif tool in ("make", "just"):
        yield extra, re.compile(rb"(?m)^[-+]?@?" + spelled + rb"(?:[ \t][^\n:=]*)?::?(?!=)")
    elif tool == "script":
        yield extra, re.compile(rb"(?m)^[-+]?[\"']?" + spelled + rb"[\"']?[ \t]*=")


def _spell_package(name: str) -> re.Pattern[bytes]:
    parts = [re.escape(part.encode("utf-8", "replace")) for part in re.split("[-_]", name)]
    return re.compile(rb"(?<![\w@/-])" + b"[-_]".join(parts) + rb"(?![\w/-])", re.IGNORECASE)
