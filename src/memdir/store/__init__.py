"""Storage of memories: the `Store` contract, its implementations, and what they record besides the memories.

Every change is first planned (`plan`, without side effects), then recorded as pending (`history`), then written to the
disk (`files`). `contract` has the operations that FileStore and MemoryStore share, `batch` makes many edits as one
change, `inbox` keeps items for review, `state` lists memdir's own files. Nothing here prints or calls a model.
"""
