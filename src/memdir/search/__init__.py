"""Finding the right memory in milliseconds, with no model and no network.

    terms.py     text -> terms (stems, CJK bigrams), passages, dates
    words.py     the word table: neighbours, vectors and rarity of 30,000 English stems; memory-mapped look-ups
    vectors.py   pooled vectors of passages and queries, in plain Python
    catalog.py   the derived index of one directory in SQLite: postings, passages, vectors, by stat signature
    rank.py      candidates, scores, the floor below which nothing is said
    local.py     the local selector over one or several stores

The index can be deleted at any time and comes back. Nothing here decides whether recall should run (`gates`), nor how a
memory is shown (`reminder`).
"""
