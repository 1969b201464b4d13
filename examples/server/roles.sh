#!/bin/sh
# Makes the two roles and the database, once, when the data folder is empty.
set -eu
psql -v ON_ERROR_STOP=1 -U postgres -v owner="$OWNER_PASSWORD" -v app="$APP_PASSWORD" <<'SQL'
CREATE ROLE memdir_owner LOGIN PASSWORD :'owner';
CREATE ROLE memdir_app LOGIN PASSWORD :'app';
CREATE DATABASE memdir OWNER memdir_owner;
SQL
