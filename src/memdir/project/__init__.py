"""Settings, the git root, memory directories and their owners, and the hosts."""
