"""Charts at first paint: Vega-Lite specs drawn to SVG at build time, in two widths, colours left to the style sheet."""

import copy
import re

from builder.cache import BuildError

WIDTHS = {"chart-wide": 640, "chart-narrow": 330}


def draw(panel: str, charts: dict[str, dict], source: str) -> str:
    """The panel with each empty [data-chart=ID] filled. Raises BuildError where panel and charts do not match."""
    for chart, spec in charts.items():
        pattern = re.compile(rf'(<(\w+)\b[^>]*\bdata-chart="{re.escape(chart)}"[^>]*>)(</\2>)')
        if len(pattern.findall(panel)) != 1:
            raise BuildError(f'{source}: the panel needs exactly one empty element with data-chart="{chart}"')
        drawing = "".join(f'<span class="{name}" aria-hidden="true">{svg(spec, width, f"{chart}-{name}-")}</span>'
                          for name, width in WIDTHS.items())
        panel = pattern.sub(lambda match, drawing=drawing: match.group(1) + drawing + match.group(3), panel)
    return panel


def svg(spec: dict, width: int, prefix: str) -> str:
    """One chart as SVG of a given width; ids are made unique, since a page holds many drawings."""
    import vl_convert

    text = vl_convert.vegalite_to_svg(with_width(spec, width), show_warnings=False)
    names = set(re.findall(r'\bid="([^"]+)"', text))
    for name in names:
        text = text.replace(f'id="{name}"', f'id="{prefix}{name}"').replace(f"url(#{name})", f"url(#{prefix}{name})")
    return compact(text)


def with_width(spec: dict, width: int) -> dict:
    """A spec whose container widths are `width` pixels in all, axes and legends included."""
    spec = copy.deepcopy(spec)
    for view in (spec, *spec.get("vconcat", ())):
        if view.get("width") == "container":
            view["width"] = width
    return {"autosize": {"type": "fit-x", "contains": "padding"}} | spec


def compact(text: str) -> str:
    """The same drawing in fewer bytes: coordinates to a tenth of a pixel, no attributes that say the default, and none
    for screen readers: the place it stands in is one image with one label.
    """
    def shortened(tag: re.Match) -> str:
        return re.sub(r"-?\d+\.\d{2,}", lambda match: f"{float(match.group()):.1f}".removesuffix(".0"), tag.group())

    text = re.sub(r"<[^>]*>", shortened, text)  # what stands between tags is read: 0.03 on an axis stays
    return re.sub(r' (?:xmlns:xlink="[^"]*"|stroke-miterlimit="10"|opacity="1"|pointer-events="none"'
                  r'|aria-[a-z]+="[^"]*"|role="[^"]*")', "", text)
