-- Who may: members, teams, tokens, and the log of what was done. A token is found by tenant and id, which its text contains, so that no
-- statement looks across tenants.

CREATE TABLE memdir.members (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    member uuid NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, member),
    UNIQUE (tenant, issuer, subject)
);

CREATE TABLE memdir.teams (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    team uuid NOT NULL,
    name text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, team),
    UNIQUE (tenant, name)
);

CREATE TABLE memdir.team_members (
    tenant uuid NOT NULL,
    team uuid NOT NULL,
    member uuid NOT NULL,
    PRIMARY KEY (tenant, team, member),
    FOREIGN KEY (tenant, team) REFERENCES memdir.teams ON DELETE CASCADE,
    FOREIGN KEY (tenant, member) REFERENCES memdir.members ON DELETE CASCADE
);
CREATE INDEX team_members_member ON memdir.team_members (tenant, member);

ALTER TABLE memdir.stores ADD CONSTRAINT stores_team FOREIGN KEY (tenant, team) REFERENCES memdir.teams;

CREATE TABLE memdir.tokens (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    token uuid NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    access text NOT NULL,
    stores uuid[] NOT NULL,
    member uuid,
    created timestamptz NOT NULL DEFAULT now(),
    expires timestamptz NOT NULL,
    revoked timestamptz,
    PRIMARY KEY (tenant, token),
    FOREIGN KEY (tenant, member) REFERENCES memdir.members ON DELETE CASCADE
);

CREATE TABLE memdir.audit (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    id text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    status integer NOT NULL,
    PRIMARY KEY (tenant, id)
);
