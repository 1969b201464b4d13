"""Memory files and MEMORY.md as text."""
