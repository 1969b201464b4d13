"""Recall: the few memories that fit a question, found in milliseconds without a model or a network.

    pipeline.py   recall(): skip reasons -> select -> read -> record; what a compacted conversation is shown again
    prefetch.py   recall in the background, in a thread, and the selector that asks a model
    select.py     the local selector over one or several stores: candidates, scores and the learned threshold
    index.py      the derived index of one directory in SQLite, which can be deleted at any time; the word table:
                  neighbours, rarity and vectors of 30,000 English stems
    terms.py      text -> terms (stems, CJK bigrams), passages, dates
    reminder.py   a memory as text for a conversation, within the limits of a host
    find.py       plain search for memories that contain every word

This file imports nothing: a prompt hook loads only the modules it needs.
"""
