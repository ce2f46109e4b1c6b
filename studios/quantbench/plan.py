"""The allocator: which format every projection gets, what that weighs, and what it is predicted to lose."""

from dataclasses import dataclass
from typing import Any

from pycore.quality import places, recipes
from pycore.units import decimal_bytes
from studios.explain import Ledger, Number, help_field, plain
from studios.marks import percent, share_text
from studios.quantbench.bits import Choice
from studios.quantbench.measured import PROJECTIONS
from studios.quantbench.names import also, figure

BUDGETS = (3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The format of one kind of projection, chosen by hand or free."""

    projection: str = help_field("q, k, ...")
    options: tuple[tuple[str, bool], ...] = help_field("(configuration, chosen)")
    free: bool = help_field("whether the plan chooses")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCell:
    """One projection of one layer."""

    text: str = help_field("its configuration")
    style: str = help_field("'w1' (fewest bits) to 'w6', and 'fixed' where chosen by hand")
    href: str = help_field("the question with the next configuration in its place")
    title: str = help_field("bits, bytes, predicted loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The section."""

    verdict: str = help_field("what the plan buys, in a sentence")
    fits: bool = help_field("whether the budget can be met")
    size: Number = help_field("bytes of the planned weights")
    bits: Number = help_field("bits per weight")
    loss: Number = help_field("predicted loss")
    budgets: tuple[Choice, ...] = help_field("budgets as links")
    picks: tuple[Pick, ...] = help_field("by projection")
    columns: tuple[str, ...] = help_field("projections")
    rows: tuple[tuple[str, tuple[PlanCell, ...]], ...] = help_field("(layer, cells)")
    mix: tuple[tuple[str, str, str, str, str], ...] = help_field("(configuration, style, share of weights, x, width)")
    uniforms: tuple[tuple[str, str, str, str, bool], ...] = help_field("(configuration, bits, MB, loss, chosen)")
    llama_cpp: str = help_field("arguments for llama-quantize, or ''")
    recipe: str = help_field("recipe for llm-compressor, or ''")
    llama_cpp_unsaid: tuple[str, ...] = help_field("configurations that llama.cpp has no type for")
    recipe_unsaid: tuple[str, ...] = help_field("configurations that a recipe cannot say")
    recipe_near: tuple[str, ...] = help_field("configurations that a recipe says by the nearest it has")
    targets: tuple[Choice, ...] = help_field("plans of what one program can store, as links")
    free: str = help_field("link that lets every choice go, or ''")


def plan_view(query: Any, plan: Any, model: Any, ledger: Ledger) -> PlanView:
    """The section from a plan over a model's rows."""
    ledger.section("Plan")
    names = [one.configuration for one in sorted(plan.uniforms, key=lambda one: (one.bits_per_weight, one.configuration))]
    styles = {name: f"w{1 + min(5 * place // max(len(names) - 1, 1), 5)}" for place, name in enumerate(names)}
    own = entries(query.choices)
    columns = tuple(name for name in PROJECTIONS if any(one.projection == name for one in plan.assigned))
    at = {(one.layer, one.projection): one for one in plan.assigned}
    layers = sorted({one.layer for one in plan.assigned})
    rows = tuple((str(layer), tuple(cell(query, at.get((layer, name)), names, styles, own) for name in columns))
                 for layer in layers)
    return PlanView(
        verdict=verdict(plan), fits=plan.fits, size=ledger.number(plan.size, decimal_bytes), rows=rows,
        bits=ledger.number(plan.bits_per_weight, lambda value: f"{figure(value, 4)} bits per weight"),
        loss=ledger.number(plan.loss, lambda value: f"{figure(value, 3)} nats"), budgets=budgets(query), columns=columns,
        picks=tuple(pick(name, names, own) for name in columns), mix=mix(plan, names, styles),
        uniforms=tuple((plain(one.configuration, 60), figure(one.bits_per_weight, 4), figure(one.bytes / 1e6, 4),
                        figure(one.loss, 3), bool(plan.uniform and one.configuration == plan.uniform.configuration))
                       for one in plan.uniforms),
        llama_cpp=plan.commands.llama_cpp, recipe=plan.commands.recipe,
        llama_cpp_unsaid=plan.commands.llama_cpp_unsaid, recipe_unsaid=plan.commands.recipe_unsaid,
        recipe_near=plan.commands.recipe_near, targets=targets(query, model), free=also(query, choices="") if own else "")


def targets(query: Any, model: Any) -> tuple[Choice, ...]:
    """A plan of everything that was measured, and of what llama.cpp or llm-compressor can store."""
    stored = {one.configuration: (one.format, one.options) for one in model.configurations}
    sayable = {name: recipes.sayable(*stored.get(name, ("", ()))) for name in places.measured_formats(model)}
    found = [("every measured format", "")]
    found += [(text, ",".join(name for name, can in sayable.items() if can[place]))
              for place, text in enumerate(("only what llama.cpp stores", "only what llm-compressor stores"))]
    return tuple(Choice(text=text, href=also(query, formats=names), chosen=names == query.formats)
                 for number, (text, names) in enumerate(found) if names or not number)


def verdict(plan: Any) -> str:
    """The plan against the best that is the same everywhere."""
    if not plan.fits:
        return "Even the smallest choices are larger than the budget; this is them."
    if plan.uniform is None:
        return "No single configuration fits the budget; this mixture does."
    if plan.loss.value <= 0 or plan.uniform.loss <= 0:
        return f"Measured alone, nothing here loses anything under {plain(plan.uniform.configuration, 60)}."
    times = plan.uniform.loss / plan.loss.value
    if times < 1.005:
        return f"Nothing beats {plain(plan.uniform.configuration, 60)} everywhere at this size."
    return (f"Predicted loss {figure(times, 3)} times smaller than with {plain(plan.uniform.configuration, 60)} everywhere, "
            "the best single format that fits.")


def entries(text: str) -> dict[str, str]:
    """'down=q6_k, 3.v=q8_0' as a table; what is no entry is left out (the core has refused it before)."""
    return {name.strip(): value.strip() for name, mark, value in (part.partition("=") for part in text.split(",")) if mark}


def cell(query: Any, one: Any, names: list[str], styles: dict[str, str], own: dict[str, str]) -> PlanCell:
    """One projection of one layer; a click gives it the next larger configuration."""
    if one is None:
        return PlanCell(text="–", style="none", href="", title="")
    key, name = f"{one.layer}.{one.projection}", one.choice.configuration
    following = names[(names.index(name) + 1) % len(names)] if name in names else name
    choices = ",".join(f"{place}={value}" for place, value in (own | {key: following}).items())
    bits = 8 * one.choice.bytes / one.weights
    return PlanCell(text=plain(name, 24), style=styles.get(name, "w1") + (" fixed" if one.fixed else ""),
                href=also(query, choices=choices),
                title=f"layer {one.layer}, {one.projection}: {figure(bits, 4)} bits per weight, {one.choice.bytes:,} bytes, "
                      f"{figure(1000 * one.choice.loss, 2)} thousandths of a nat; a click makes it {following}")


def pick(projection: str, names: list[str], own: dict[str, str]) -> Pick:
    """The choices of one kind of projection."""
    return Pick(projection=projection, free=projection not in own,
                options=tuple((name, own.get(projection) == name) for name in names))


def mix(plan: Any, names: list[str], styles: dict[str, str]) -> tuple[tuple[str, str, str, str, str], ...]:
    """What share of the weights has which configuration."""
    total = sum(one.weights for one in plan.assigned)
    taken = {name: sum(one.weights for one in plan.assigned if one.choice.configuration == name) for name in names}
    pieces, at = [], 0
    for name, weights in taken.items():
        if weights:
            pieces.append((plain(name, 40), styles[name], share_text(weights, total), percent(at, total),
                           percent(weights, total)))
            at += weights
    return tuple(pieces)


def budgets(query: Any) -> tuple[Choice, ...]:
    """Budgets in bits per weight."""
    return tuple(Choice(text=f"{value:g} bits", href=also(query, budget=value, budget_mb=0.0),
                        chosen=query.budget == value and not query.budget_mb) for value in BUDGETS)
