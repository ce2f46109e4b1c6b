"""Exact tokenizers in pure Python: vocabularies, how a text is cut, how pieces are merged."""
