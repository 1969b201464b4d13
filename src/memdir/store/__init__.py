"""Where memories are kept: the small `Store` contract, and what keeps it.

    plan.py      a draft, an edit or a deletion -> the bytes of every file before and after (pure)
    rewind.py    undo and restore, planned the same way (pure)
    contract.py  the Store protocol and the verbs that FileStore and RamStore share
    files.py     FileStore: the real directory, one lock, one act at a time
    apply.py     an act onto the disk, and what a killed one left behind healed
    history.py   every act kept in SQLite, which is also the journal the healing reads
    ledger.py    what was recalled, when and for which query: a table beside the acts
    headers.py   the derived cache of headers and stat signatures; may be deleted
    ram.py       RamStore: the reference, for tests and throw-away sessions
    lookup.py    what a person typed -> one memory
    preview.py   what a save would meet, looked at without a lock

Nothing here prints, and nothing here asks a model.
"""
