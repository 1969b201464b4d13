"""Settings, the git root, where memory is stored, whose it is, and the hosts."""
