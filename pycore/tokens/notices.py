"""What must be said wherever the vocabularies and the sample texts go: whose they are, under which terms, in full."""

from pycore.facts import text
from pycore.tokens import samples
from pycore.tokens.catalogue import Origin, origins


def notices() -> str:
    """One text: a paragraph a vocabulary, then each licence once. Not for a page's Python, which has no licences inside."""
    parts = [*map(paragraph, origins()),
             f"Sample texts (Article 1 of the Universal Declaration of Human Rights): {samples.LICENCE}; "
             f"from the npm package {samples.PACKAGE}. {samples.NOTICE}."]
    for name in dict.fromkeys(name for row in origins() for name in row.texts.split()):
        parts += [f"---- {name} ----", text(f"licences/{name}.licence", "tokenizers").strip()]
    return "\n\n".join(parts) + "\n"


def paragraph(row: Origin) -> str:
    """One vocabulary: file, origin, licence, what must be said."""
    return (f"{row.file} ({row.label}): {row.licence}; from the {row.manager} package {row.package}, {row.member}.\n"
            f"Terms: {row.terms} ({', '.join(row.texts.split())} below).\n{row.notice}")
