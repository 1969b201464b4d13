"""Team memory over git: the files of `team/` kept in step with a branch that several people share.

    sync     fetch, plan, push, write, in this order; taking part in a team and leaving it; reverting an author
    plan     what each side did, what may come in and go out, and what a sync would do
    merge    two versions of one file made into one
    git      the git program as a carrier, in memdir's own bare copy; the folder here and the branch there
    state    which remote; what the files were when both sides were last in step; the last sync, and news of others

The person's own repository is read for the address of its remote only. Nobody's identity is proved: an author is what a
commit says. This file imports nothing: the start of a session loads only `state`.
"""
