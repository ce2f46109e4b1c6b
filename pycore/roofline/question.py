"""A deployment looked at as a step and a load: what every answer about speed starts from."""

from dataclasses import dataclass

from pycore.nouns import Deployment, Parallel
from pycore.roofline.efficiency import arithmetic
from pycore.roofline.load import STYLES, Requests
from pycore.roofline.prepare import prepare
from pycore.roofline.step import Step
from pycore.roofline.work import Work, work
from pycore.units import MIB
from pycore.vram import engines


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A deployment looked at as a step and a load."""

    deployment: Deployment
    step: Step
    work: Work
    load: Requests
    parallel: Parallel


def question(deployment: Deployment, sequences: int = 0, ideal: bool = False) -> Question:
    """The step and the load of one replica. Engines that split by layers use all devices of a replica as stages, one
    micro-batch after the other (llama.cpp, transformers); the others keep every pipeline stage busy."""
    profile = engines.engine(deployment.engine)
    tensor, stages = engines.spread(profile, deployment.parallel)
    parallel = Parallel(tensor=tensor, pipeline=stages, data=deployment.parallel.data,
                        expert=deployment.parallel.expert)
    step = prepare(deployment.model, deployment.weights, deployment.keys, deployment.values, parallel,
                   deployment.accelerator, deployment.engine, ideal)
    share = -(-sequences // deployment.parallel.data) if sequences else deployment.sequences_per_replica
    load = Requests(sequences=share, prompt=deployment.prompt, output=deployment.output,
                    cached=deployment.cached_tokens,
                    budget=tokens_a_step(deployment),
                    style=STYLES[deployment.engine],
                    batches=min(share, stages) if profile.split == "tensor" else 1)
    return Question(deployment=deployment, step=step, load=load, parallel=parallel,
                    work=work(deployment.model, deployment.weights, deployment.keys, deployment.values, parallel))


def tokens_a_step(deployment: Deployment) -> int:
    """Most tokens in one forward pass: asked, or the engine's default for the card; transformers takes whole
    prompts."""
    if STYLES[deployment.engine] == "static":
        return deployment.prompt
    card = deployment.accelerator
    visible = card.memory_usable_mib * MIB if card.memory_usable_mib else card.memory_box_gib * 1024 * MIB
    found = engines.tokens_a_step(engines.engine(deployment.engine), visible, card.id, deployment.max_batched_tokens)
    return found or deployment.prompt


def compute_of(deployment: Deployment) -> str:
    """The arithmetic of the linear layers."""
    return arithmetic(deployment.weights, deployment.accelerator)
