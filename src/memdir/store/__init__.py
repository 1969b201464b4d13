"""Where memories are kept: the small `Store` contract, and what keeps it.

    plan.py      a draft, an edit or a deletion -> the bytes of every file before and after (pure)
    shared.py    what others will read, and what may not come into it (pure)
    rewind.py    undo and restore, planned the same way (pure)
    batch.py     many edits as one change, planned the same way (pure)
    contract.py  the Store protocol and the verbs that FileStore and MemoryStore share
    files.py     FileStore: the real directory, one lock, one change at a time
    apply.py     a change onto the disk, and what a killed one left behind healed
    database.py  a SQLite file that is kept: migrations, transactions, errors in our words
    history.py   every change kept in SQLite, which is also the journal the healing reads
    changes.py      the recorded changes read back
    dating.py    when the bytes of a memory came to be what they are
    ledger.py    what was recalled, when and for which query: a table beside the changes
    inbox.py     what waits for a person: a table beside the changes, and the verbs of a store for it
    kept.py      ledger and inbox of a real directory
    held.py      a directory in the hands of one holder: lock, history, healing
    payloads.py  edits and evidence as the JSON of an inbox item
    headers.py   the derived cache of headers and stat signatures; may be deleted
    ram.py       MemoryStore: the reference, for tests and throw-away sessions
    lookup.py    what a person typed -> one memory
    preview.py   what a save would meet, looked at without a lock

Nothing here prints, and nothing here asks a model.
"""
