"""Queues whose waiting times are known in closed form: the oracles of the simulator, and of the intervals.

One server, Poisson arrivals, served in order of arrival. M/M/1: exponential service; M/D/1: all services alike. Rates are
per second, times in seconds; `probability` is a share of requests.
"""

import math

from pycore.errors import InputError
from pycore.ledger import term

KLEINROCK = "Kleinrock 1975, Queueing Systems I"


def stable(arrivals: float, services: float) -> None:
    """Raises InputError where a queue with these rates (per second) never settles."""
    if not 0 < arrivals < services < math.inf:
        raise InputError("arrivals_per_s", arrivals, f"a queue that serves {services:g} a second settles below that rate")


@term("Load of a single server", "", source=f"{KLEINROCK}, section 3.2")
def load(arrivals_per_s, services_per_s):
    """arrivals_per_s / services_per_s"""
    return arrivals_per_s / services_per_s


@term("Mean wait, M/M/1", "s", source=f"{KLEINROCK}, section 3.2")
def mm1_wait(arrivals_per_s, services_per_s):
    """arrivals_per_s / services_per_s / (services_per_s − arrivals_per_s)"""
    stable(arrivals_per_s, services_per_s)
    return arrivals_per_s / services_per_s / (services_per_s - arrivals_per_s)


@term("Mean time in system, M/M/1", "s", source=f"{KLEINROCK}, section 3.2")
def mm1_sojourn(arrivals_per_s, services_per_s):
    """1 / (services_per_s − arrivals_per_s)"""
    stable(arrivals_per_s, services_per_s)
    return 1.0 / (services_per_s - arrivals_per_s)


@term("Time in system that a share of requests stays below, M/M/1", "s", source=f"{KLEINROCK}, section 5.2")
def mm1_sojourn_quantile(arrivals_per_s, services_per_s, probability):
    """−ln(1 − probability) / (services_per_s − arrivals_per_s)"""
    stable(arrivals_per_s, services_per_s)
    return -math.log1p(-probability) / (services_per_s - arrivals_per_s)


@term("Mean wait, M/D/1", "s", source=f"Pollaczek-Khinchine; {KLEINROCK}, section 5.6")
def md1_wait(arrivals_per_s, services_per_s):
    """arrivals_per_s / services_per_s / (2 × (services_per_s − arrivals_per_s))"""
    stable(arrivals_per_s, services_per_s)
    return arrivals_per_s / services_per_s / (2.0 * (services_per_s - arrivals_per_s))
