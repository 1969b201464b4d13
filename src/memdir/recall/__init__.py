"""Recall: the few memories that fit a question, found in milliseconds without a model or a network.

    pipeline.py   recall(): find, read and record memories, and show them again after a compaction
    prefetch.py   recall in a background thread, and a selector that uses a model
    select.py     the local selector over one or several stores: candidates, scores and the learned threshold
    index.py      the index of one directory in SQLite, which can be deleted at any time, and the word table:
                  neighbours, rarity and vectors of 30,000 English stems
    terms.py      split text into terms (stems, CJK bigrams) and passages, and find dates
    reminder.py   render memories for a conversation within the limits of a host
    triggers.py   find the memories for an action: written and derived triggers, their table, the evidence
    action.py     choose and record what is shown at an action or after a failure, and which rule asks or refuses
    find.py       plain search for memories that contain every word

This file imports nothing: a prompt hook loads only the modules it needs.
"""
