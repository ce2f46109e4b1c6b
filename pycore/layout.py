"""How a replica is laid out over devices when the question leaves it open, and what is wrong with a layout it names."""

from pycore.errors import InputError
from pycore.nouns import Model, Parallel


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending: divisors(8) is (1, 2, 4, 8)."""
    return tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def automatic(model: Model, devices: int) -> tuple[int, int]:
    """(tensor, pipeline) for one replica on `devices`: as much tensor parallel as divides the attention heads, the rest
    as pipeline stages. Engines refuse a tensor split that cuts a head; pipeline stages only need a layer each.

    Raises InputError on `count` when neither split works.
    """
    tensor = max(divisor for divisor in divisors(devices) if model.attention_heads % divisor == 0)
    pipeline = devices // tensor
    if pipeline > model.layers:
        raise InputError("count", devices, f"accepted: a number of devices that splits {model.attention_heads} "
                                           f"attention heads and at most {model.layers} layers")
    return tensor, pipeline


def layout(model: Model, *, count: int, tensor: int, pipeline: int, data: int, expert: bool) -> Parallel:
    """The Parallel that a question means; tensor 0 asks for the automatic split.

    Raises InputError on the field that does not fit: the product of the degrees must be the number of devices.
    """
    if tensor == 0:
        if count % (pipeline * data):
            raise InputError("count", count, f"accepted: a multiple of pipeline × data parallel = {pipeline * data}")
        if pipeline == 1:
            tensor, pipeline = automatic(model, count // data)
        else:
            tensor = count // (pipeline * data)
    if tensor * pipeline * data != count:
        raise InputError("tp", tensor, f"accepted: degrees whose product is the number of devices; tensor {tensor} × "
                                       f"pipeline {pipeline} × data {data} = {tensor * pipeline * data}, not {count}")
    return Parallel(tensor=tensor, pipeline=pipeline, data=data, expert=expert)
