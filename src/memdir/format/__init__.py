"""A memory file and MEMORY.md as text."""
