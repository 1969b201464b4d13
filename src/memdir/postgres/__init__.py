"""PostgreSQL: the store that `memdir serve` uses, with its history, its cache, its search and the database's migrations."""
