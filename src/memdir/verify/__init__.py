"""Verification: look up the things that a memory mentions in the project, without a model.

    check.py    verify a store against its project
    records.py  claims, verdicts, and their cache in the index
    claims.py   find the claims in the text of a memory
    project.py  the files of a project, the words in them, and its manifests
    past.py     the history of a project: renames, removals, replacements
    lookup.py   determine the status of claims: present, moved, gone, passed or not checkable

This file imports nothing, because recall loads only `records`. Verification does not write to the project, run its hooks or
use a model.
"""
