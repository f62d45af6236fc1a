"""Streams on disk: segments, how epochs are written, and how anybody reads them."""
