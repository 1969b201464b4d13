"""Storage of memories: the `Store` contract, its implementations, and what they record besides the memories.

plan (pure) -> history (recorded as pending) -> files (applied on the disk) is the path of every change. `contract` has the verbs
that FileStore (`files`) and MemoryStore (`memory`) share, `batch` many edits as one change, `inbox` what needs review, `state`
the list of all files of memdir's own. Nothing here prints, and nothing here calls a model.
"""
