-- MEMORY.md is rendered from a line and a rank that every memory's row has; other lines of it are in `prose`. Search reads postings by key and is
-- indexed in the background: `queue` says where to look. It belongs to no tenant, so that an indexer need not know all of them; it has IDs only.

ALTER TABLE memdir.files ALTER COLUMN path TYPE text COLLATE "C", ADD COLUMN folded text, ADD COLUMN line text NOT NULL DEFAULT '', ADD COLUMN rank double precision NOT NULL DEFAULT 0;

CREATE TABLE memdir.prose (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    path text NOT NULL,
    rank double precision NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (tenant, store, path, rank),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);

CREATE TABLE memdir.queue (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    revision bigint NOT NULL,
    leased timestamptz NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (tenant, store)
);

DROP TABLE memdir.search;
DROP TABLE memdir.searched;

-- A document of the search: its number grows, so that the newest postings of a word are read first.
CREATE TABLE memdir.search (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    doc bigint NOT NULL,
    path text NOT NULL,
    digest text NOT NULL,
    length integer NOT NULL,
    passages text NOT NULL,
    vectors bytea NOT NULL,
    links text NOT NULL,
    modified double precision NOT NULL,
    pinned boolean NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (tenant, store, doc),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);
CREATE UNIQUE INDEX search_names ON memdir.search (tenant, store, path);

-- No foreign key: it would be checked for every word of every memory. Whoever deletes a store deletes these rows.
CREATE TABLE memdir.postings (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    term text COLLATE "C" NOT NULL,
    doc bigint NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (tenant, store, term, doc)
);

CREATE TABLE memdir.terms (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    term text COLLATE "C" NOT NULL,
    docs integer NOT NULL,
    PRIMARY KEY (tenant, store, term)
);

-- Files up to (revision, path) and deletions up to `dropped` are indexed.
CREATE TABLE memdir.searched (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    version text NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    path text COLLATE "C" NOT NULL DEFAULT '',
    dropped bigint NOT NULL DEFAULT 0,
    last_doc bigint NOT NULL DEFAULT 0,
    docs bigint NOT NULL DEFAULT 0,
    length bigint NOT NULL DEFAULT 0,
    lines bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, store),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);

DROP INDEX memdir.files_change;
CREATE INDEX files_change ON memdir.files (tenant, store, change, path);
DROP INDEX memdir.changes_mark;
CREATE UNIQUE INDEX changes_mark ON memdir.changes (tenant, store, mark) WHERE mark <> '';

ALTER TABLE memdir.prose ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.prose FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.prose USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.prose AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.search ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.search FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.search USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.search AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.postings ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.postings FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.postings USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.postings AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.terms FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.terms USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.terms AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.searched ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.searched FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.searched USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.searched AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

GRANT SELECT, INSERT, UPDATE, DELETE ON memdir.prose, memdir.queue, memdir.search, memdir.postings, memdir.terms, memdir.searched TO memdir_app;
