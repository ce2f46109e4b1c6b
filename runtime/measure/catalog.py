"""Rebuild `data/catalog/` from the facts folder, or check that it is what the facts give.

    python -m runtime.measure.catalog --facts ../shared/facts [--check]

Facts are cut to the columns the product uses; every row keeps its source and date. Nothing is looked up on a network.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from runtime.measure import catalog_devices, catalog_formats, catalog_models, catalog_prices
from runtime.measure.tables import csv_text, settle


def read(facts: Path, name: str) -> list[dict]:
    """One catalogue of the facts folder."""
    return json.loads((facts / "catalog" / f"{name}.json").read_text(encoding="utf-8"))


def tables(facts: Path) -> Mapping[str, str]:
    """Every generated file: path from the repository root -> text."""
    models, prices, offers = read(facts, "models"), read(facts, "prices"), read(facts, "api_prices")
    priced = [*filter(catalog_prices.usable, prices), *offers]
    written = {
        "data/catalog/models.csv": (catalog_models.COLUMNS, catalog_models.rows(models)),
        "data/catalog/accelerators.csv": (catalog_devices.COLUMNS, catalog_devices.rows(read(facts, "gpus"), prices)),
        "data/catalog/formats.csv": (catalog_formats.COLUMNS, catalog_formats.rows(read(facts, "quant_formats"))),
        "data/catalog/cloud_prices.csv": (catalog_prices.CLOUD_COLUMNS, catalog_prices.cloud_rows(prices)),
        "data/catalog/api_offers.csv": (catalog_prices.API_COLUMNS, catalog_prices.api_rows(offers)),
        "data/catalog/sources.csv": (catalog_prices.SOURCE_COLUMNS, catalog_prices.source_rows(priced)),
        "data/validation/parameters.csv": (catalog_models.CHECK_COLUMNS, catalog_models.check_rows(models)),
    }
    return {path: csv_text(columns, rows) for path, (columns, rows) in written.items()}


def main() -> int:
    """Write the tables, or with --check compare them; the exit status is 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--facts", type=Path, required=True, help="the facts folder, e.g. ../shared/facts")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    return settle(tables(options.facts), check=options.check)


if __name__ == "__main__":
    raise SystemExit(main())
