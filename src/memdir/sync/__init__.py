"""Sync: directories of memory here, kept in step with a tree of files that several machines share.

    sync     fetch, plan, push, write, in this order; a team: taking part, leaving, reverting an author
    own      a person's own machines: which directory is which project, and encryption
    tree     both sides as records, and what a remote has to be able to do
    plan     what each side did, what may come in and go out, and what a sync would do
    merge    two versions of one file made into one
    git      a branch of a git remote, by the git program, in memdir's own bare copy
    server   a store of a server
    state    which remote; what the files were when both sides were last in step; the last sync, and news of others

The person's own repository is read for the address of its remote only. Nobody's identity is proved: an author is what a
commit says. This file imports nothing: the start of a session loads only `state`.
"""
