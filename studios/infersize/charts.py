"""The charts of infersize as Vega-Lite specs: layout only, every number comes from the Page.

Colours are the style sheet's custom properties, so a drawing follows light and dark.
"""

from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec, for those the page has data for."""
    return {}
