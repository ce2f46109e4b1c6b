"""Quantising real models: layers that keep packed bytes only, the methods that lessen the error, and what it costs."""
