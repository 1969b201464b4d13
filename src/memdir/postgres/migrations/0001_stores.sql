-- Organisations, their stores, and everything in a store. The tenant is first in every key, so that one tenant's rows lie together and a
-- distributed engine can shard by it. No sequence, no trigger, no extension: a store's revision is counted in its own row, under that row's lock.

CREATE TABLE memdir.tenants (
    tenant uuid PRIMARY KEY,
    name text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    max_stores integer NOT NULL DEFAULT 1000,
    max_memories integer NOT NULL DEFAULT 100000,
    max_bytes bigint NOT NULL DEFAULT 1073741824,
    max_requests integer NOT NULL DEFAULT 6000
);

CREATE TABLE memdir.stores (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    store uuid NOT NULL,
    name text NOT NULL,
    scope text NOT NULL,
    team uuid,
    owner text NOT NULL DEFAULT '',
    review boolean NOT NULL DEFAULT false,
    revision bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    items bigint NOT NULL DEFAULT 0,
    memories integer NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    created timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, store),
    UNIQUE (tenant, name)
);

-- The bytes of memories by digest; of a redacted version only the digest is left.
CREATE TABLE memdir.contents (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    digest text NOT NULL,
    data bytea,
    PRIMARY KEY (tenant, store, digest),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);

-- The present files. An index, which changes at every save, has its bytes here; a memory's are in contents.
CREATE TABLE memdir.files (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    path text NOT NULL,
    digest text NOT NULL,
    size integer NOT NULL,
    change bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    data bytea,
    PRIMARY KEY (tenant, store, path),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);
CREATE INDEX files_change ON memdir.files (tenant, store, change);

-- The history. `key` is chosen by the client before it begins, so that a commit whose answer was lost is recognised.
CREATE TABLE memdir.changes (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    change bigint NOT NULL,
    key uuid NOT NULL,
    at timestamptz NOT NULL,
    verb text NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    session text NOT NULL,
    actor text NOT NULL,
    undoes bigint,
    mark text NOT NULL,
    PRIMARY KEY (tenant, store, change),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);
CREATE UNIQUE INDEX changes_key ON memdir.changes (tenant, store, key);
CREATE INDEX changes_mark ON memdir.changes (tenant, store, mark) WHERE mark <> '';
CREATE INDEX changes_undoes ON memdir.changes (tenant, store, undoes) WHERE undoes IS NOT NULL;

CREATE TABLE memdir.changed_files (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    change bigint NOT NULL,
    seq integer NOT NULL,
    path text NOT NULL,
    before text,
    after text,
    splice_at integer,
    removed bytea,
    inserted bytea,
    PRIMARY KEY (tenant, store, change, seq),
    FOREIGN KEY (tenant, store, change) REFERENCES memdir.changes ON DELETE CASCADE
);
CREATE INDEX changed_files_path ON memdir.changed_files (tenant, store, path, change);

CREATE TABLE memdir.inbox (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    id bigint NOT NULL,
    at text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    title text NOT NULL,
    why text NOT NULL,
    name text NOT NULL,
    who text NOT NULL,
    reason text NOT NULL,
    session text NOT NULL,
    payload text NOT NULL,
    state text NOT NULL,
    decided text,
    note text NOT NULL,
    PRIMARY KEY (tenant, store, id),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);
CREATE UNIQUE INDEX inbox_key ON memdir.inbox (tenant, store, key) WHERE key <> '';

CREATE TABLE memdir.recalls (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    id text NOT NULL,
    at timestamptz NOT NULL,
    name text NOT NULL,
    query text NOT NULL,
    session text NOT NULL,
    selector text NOT NULL,
    score double precision NOT NULL,
    PRIMARY KEY (tenant, store, id),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);

-- Derived from files, and made anew where it is missing: what recall ranks by.
CREATE TABLE memdir.search (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    path text NOT NULL,
    digest text NOT NULL,
    length integer NOT NULL,
    passages text NOT NULL,
    lines integer NOT NULL,
    vectors bytea NOT NULL,
    links text NOT NULL,
    modified double precision NOT NULL,
    pinned boolean NOT NULL,
    kind text NOT NULL,
    terms tsvector NOT NULL,
    PRIMARY KEY (tenant, store, path),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);

CREATE TABLE memdir.searched (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    revision bigint NOT NULL,
    epoch bigint NOT NULL,
    version text NOT NULL,
    docs integer NOT NULL,
    length bigint NOT NULL,
    lines bigint NOT NULL,
    PRIMARY KEY (tenant, store),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);
