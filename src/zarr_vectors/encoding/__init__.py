"""Bytes to numpy and back: one module for each byte layout of the format; pure, no I/O."""
