"""Models as functions from Request to Reply: `open` opens one by name, `agent` runs one with tools.

This file imports nothing, so that a hook can render a prompt without loading a provider.
"""
