"""The one read pipeline: a selection to keys, to payloads, to rows in order."""
