"""Models as functions from Request to Reply: `open` opens one by its name, `agent` runs one that uses tools.

This file imports nothing: a hook renders a prompt without loading a provider.
"""
