"""The engine over HTTP, as OpenAI's clients know it."""
