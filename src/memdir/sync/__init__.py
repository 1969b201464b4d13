"""Sync: keep local memory directories in step with a tree of files that several machines share.

    sync     run a sync: fetch, plan, push, write; join and leave a team, and revert an author's changes
    own      sync a user's own machines: match directories to projects, and encrypt the branch
    plan     compare both sides with the merge base, and plan which files are sent, imported or refused
    merge    merge two versions of one file
    git      use a branch of a git remote, with the git program and memdir's own bare clone
    server   use a store of a server
    state    define remotes and records of both sides; store the settings, the merge base and the last sync

The user's own repository is read only for its remote's URL. Authors are not verified: an author is what a commit says.
This file imports nothing, because the start of a session loads only `state`.
"""
