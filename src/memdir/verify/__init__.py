"""Verification: what a memory names, looked up in the project, without a model.

    records.py    claims, what came of each, the verdict on a memory; the caveat in words
    cached.py     verdicts kept in the derived index: one SQLite read, no git; what recall, status and doctor may use
    spans.py      Markdown -> code, shell and prose, each with its place
    shapes.py     what a path, a symbol, a constant, a flag looks like
    commands.py   command lines: scripts, targets, the paths, flags and variables in them
    claims.py     a memory's text -> claims; precision first
    deadlines.py  dates that end something
    project.py    the project's files by git's own listing, or a bounded walk; a key of its state
    words.py      one pass over the files for all wanted words; lines that define
    manifests.py  scripts, targets and dependencies that manifests name
    gitlog.py     `git log` as a stream, within a time
    successors.py what took a word's place in a patch
    past.py       history from the newest commit back: renames, removals, what came with them
    ground.py     one project made ready for a set of claims
    path_lookup.py word_lookup.py tool_lookup.py
                  paths; symbols, constants, variables; scripts, flags, packages, branches
    looking.py    claims and a project -> present, moved, gone, passed or not checkable
    verifying.py  a store against its project: `verify`, `refresh`, `stamp`

Recall imports `records` and `cached` alone. Nothing here writes the project, runs its hooks or asks a model.
"""
