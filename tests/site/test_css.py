"""The style sheet's colours, read out of the file: light and dark hold the contrast of WCAG 2.2 (1.4.3, 1.4.11)."""

import re
from pathlib import Path

import pytest

CSS = Path(__file__).parents[2] / "site" / "css"
TOKENS = (CSS / "1-tokens.css").read_text(encoding="utf-8")

GROUNDS = ("bg", "panel")
TEXT = [(ink, ground) for ground in GROUNDS for ink in ("ink", "soft", "accent", "good", "bad", "warn")]
TEXT += [("ink", "sunk"), ("ink", "wash"), ("soft", "wash"), ("accent", "wash"), ("ink", "warn-wash"),
         ("warn", "warn-wash"), ("accent", "warn-wash"), ("soft", "warn-wash"), ("ink", "bad-wash"),
         ("bad", "bad-wash"), ("good", "good-wash"), ("on-accent", "accent"), ("ink", "h1")]
TEXT += [(f"on-c{index}", f"c{index}") for index in range(1, 8)]
TEXT += [("on-heat", f"h{index}") for index in range(2, 7)]
TEXT += [("ink", f"d{index}") for index in range(1, 7)]
TEXT += [("on-pale" if index < 6 else "on-deep", f"p{index}") for index in range(1, 8)]
TEXT += [("ink", f"k{index}") for index in range(1, 5)]
MARKS = [(mark, ground) for ground in GROUNDS for mark in ("edge", *(f"c{index}" for index in range(1, 8)))]


def block(selector: str, text: str = TOKENS) -> dict[str, str]:
    """The colours that a rule sets, by name."""
    body = text[text.index(selector):].split("{", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6});", body))


LIGHT = block(":root {")
DARK = LIGHT | block(':root[data-theme="dark"] {')


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_known_pairs():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WCAG's own example of a near miss


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ink, ground", TEXT)
def test_text_is_readable(theme, ink, ground):
    colours = LIGHT if theme == "light" else DARK
    assert contrast(colours[ink], colours[ground]) >= 4.5, (theme, ink, ground)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("mark, ground", MARKS)
def test_marks_stand_out(theme, mark, ground):
    colours = LIGHT if theme == "light" else DARK
    assert contrast(colours[mark], colours[ground]) >= 3, (theme, mark, ground)


def test_chosen_dark_and_system_dark_are_the_same():
    assert block(':root[data-theme="dark"] {') == block(':root:not([data-theme="light"]) {')
    assert set(block(':root[data-theme="dark"] {')) <= set(LIGHT)


def test_every_colour_used_is_a_token():
    sheets = {path.name: path.read_text(encoding="utf-8") for path in CSS.glob("*.css")}
    used = {name for text in sheets.values() for name in re.findall(r"var\(--([\w-]+)", text)}
    defined = {name for text in sheets.values() for name in re.findall(r"--([\w-]+)\s*:", text)}
    assert used <= defined, used - defined
    others = "".join(text for name, text in sheets.items() if name not in ("1-tokens.css", "6-print.css"))
    assert not re.findall(r":[^;{}]*#[0-9a-fA-F]{3,8}\b[^;{}]*;", others)
