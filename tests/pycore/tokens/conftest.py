"""Tokenizers and their references, each built once a session; vocabularies are fetched by package name where needed."""

import functools

import pytest

from pycore.tokens import shelf
from pycore.tokens.tokenizer import Tokenizer, build
from runtime.measure import token_oracles


@functools.cache
def built(name: str) -> Tokenizer:
    return build(shelf.load(name))


@functools.cache
def referred(name: str) -> dict:
    return token_oracles.references(name)


@pytest.fixture(scope="session")
def tokenizer(vocabularies):
    """Name -> our tokenizer."""
    return built


@pytest.fixture(scope="session")
def references(vocabularies):
    """Name -> {package: ids of a text by it}."""
    return referred
