"""Verification: look up the things that a memory names in the project, without a model.

    check.py    verify, refresh, stamp: a store against its project
    records.py  claims, verdicts, and their cache in the derived index
    claims.py   the text of a memory -> claims
    project.py  the files of a project, the words in them, and its manifests
    past.py     the history of a project: renames, removals, replacements
    lookup.py   claims and a project -> present, moved, gone, passed or not checkable

This file imports nothing: recall loads only `records`. Nothing here writes to the project, runs its hooks or asks a
model.
"""
