"""`quantbench plan`: the allocator."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import DoesNotFit, flag
from pycore.cli.options import QuestionCommand
from pycore.cli.quantbench import asking
from pycore.cli.quantbench.pareto import interval
from pycore.errors import NotKnown
from pycore.ledger import terms_in
from pycore.quality import table
from pycore.quality.allocate import Plan, Uniform
from pycore.quality.table import PROJECTIONS, Model, Promise
from pycore.systems import quantbench
from pycore.units import MB, significant

EPILOG = """\b
Examples:
  quantbench plan --budget 4.5
  quantbench plan --budget-mb 60 --formats q4_k,q6_k,q8_0
  quantbench plan --budget 6 --choices "down=q6_k, 3.v=q8_0" --llama-cpp
  quantbench plan --budget 5 --recipe > recipe.yaml

\b
Losses were measured with one projection quantised at a time; that they add up is assumed. Exit status 1: even the smallest
choices are larger than the budget.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@asking.explained
@click.option("--llama-cpp", "llama_cpp", is_flag=True, help="Print only the command line for llama-quantize.")
@click.option("--recipe", is_flag=True, help="Print only the recipe for llm-compressor.")
@asking.options(*asking.PLANNED)
def command(explain: str | None, llama_cpp: bool, recipe: bool, **options: Any) -> None:
    """A format for every projection that meets a size at the least predicted loss."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    model = table.model(query.model)
    plan, why = quantbench.planned_by(query, model)
    if plan is None:
        raise NotKnown(why)
    if explain is not None:
        asking.explain(tuple(each for one in terms_in(plan) for each in one.walk()), explain)
    elif llama_cpp or recipe:
        alone(plan.commands.llama_cpp if llama_cpp else plan.commands.recipe, "llama.cpp" if llama_cpp else "llm-compressor")
    elif as_json:
        output.write_json(asking.setting(query) | document(plan) | {"promises": [promise(one) for one in model.promises]})
    else:
        show(plan)
        promises(model)
    if not plan.fits:
        raise DoesNotFit


def alone(text: str, program: str) -> None:
    """Only what another program takes. Raises NotKnown where nothing can be said to it."""
    if not text:
        raise NotKnown(f"{program} has none of the plan's formats; --formats narrows what the plan may use")
    click.echo(text.rstrip("\n"))


def document(plan: Plan) -> dict[str, Any]:
    """What --json prints."""
    return {
        "fits": plan.fits, "budget_bytes": plan.budget_bytes or None, "bytes": plan.size.value,
        "bits_per_weight": plan.bits_per_weight.value, "predicted_kl_divergence": plan.loss.value,
        "plan": [{"layer": one.layer, "projection": one.projection, "configuration": one.choice.configuration,
                  "bytes": one.choice.bytes, "kl_divergence": one.choice.loss, "fixed": one.fixed} for one in plan.assigned],
        "best_single_format": None if plan.uniform is None else uniform(plan.uniform),
        "single_formats": [uniform(one) for one in plan.uniforms],
        "llama_cpp": plan.commands.llama_cpp or None, "llama_cpp_unsaid": list(plan.commands.llama_cpp_unsaid),
        "recipe": plan.commands.recipe or None, "recipe_unsaid": list(plan.commands.recipe_unsaid),
    }


def uniform(one: Uniform) -> dict[str, Any]:
    """One format everywhere, as JSON has it."""
    return {"configuration": one.configuration, "bytes": one.bytes, "bits_per_weight": one.bits_per_weight,
            "predicted_kl_divergence": one.loss}


def promise(one: Promise) -> dict[str, Any]:
    """A plan that was built and measured, as JSON has it."""
    return {"bytes": one.size_bytes, "bits_per_weight": one.bits_per_weight, "predicted_kl_divergence": one.predicted_kl,
            "measured_kl_divergence": interval(one.kl_divergence), "best_single_format": one.uniform or None,
            "its_measured_kl_divergence": interval(one.uniform_kl), "tokens": one.tokens}


def promises(model: Model) -> None:
    """How well earlier plans kept what was predicted."""
    if model.promises:
        output.heading("Plans that were built and measured: what was predicted, what came out")
        output.table(("bits per weight", "predicted KL", "measured KL", "best single format", "its measured KL"), [
            (significant(one.bits_per_weight, 4), f"{one.predicted_kl:.4g}", f"{one.kl_divergence.value:.4g}", one.uniform,
             "-" if one.uniform_kl is None else f"{one.uniform_kl.value:.4g}")
            for one in model.promises], right=(0, 1, 2, 4))


def show(plan: Plan) -> None:
    """As text: layers down, projections across."""
    if plan.fits:
        output.line(f"{plan.bits_per_weight.text} per weight, {plan.size.value / MB:,.2f} MB, predicted KL divergence "
                    f"{plan.loss.value:.4g} nats", style="bold")
    else:
        output.line(f"Does not fit: the smallest choices take {plan.size.value / MB:,.2f} MB, the budget is "
                    f"{plan.budget_bytes / MB:,.2f} MB", style="bold")
    by_place = {(one.layer, one.projection): one for one in plan.assigned}
    used = [name for name in PROJECTIONS if any(projection == name for _, projection in by_place)]
    output.table(("layer", *used), [
        (layer, *(by_place[layer, name].choice.configuration + ("*" if by_place[layer, name].fixed else "")
                  if (layer, name) in by_place else "-" for name in used))
        for layer in sorted({layer for layer, _ in by_place})], right=(0,))
    if any(one.fixed for one in plan.assigned):
        asking.sentence("* fixed by hand, or the only one measured")
    output.heading("One format everywhere")
    output.table(("", "bits per weight", "MB", "predicted KL"), [
        (one.configuration, significant(one.bits_per_weight, 5), f"{one.bytes / MB:,.2f}", f"{one.loss:.4g}")
        for one in plan.uniforms], right=(1, 2, 3))
    for title, text, unsaid in (("llama.cpp", plan.commands.llama_cpp, plan.commands.llama_cpp_unsaid),
                                ("llm-compressor", plan.commands.recipe, plan.commands.recipe_unsaid)):
        output.heading(title + (f" (has no {', '.join(unsaid)})" if unsaid else ""))
        output.line(text.rstrip("\n") or "-")
