"""Policies by the names that people write."""

from pycore.serving.policies.cache_aware import CacheAware
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.contract import Policy
from pycore.serving.policies.decode_first import DecodeFirst
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.priority import Priority
from pycore.serving.policies.sjf import Sjf
from pycore.serving.policies.slo_aware import SloAware

KINDS: tuple[type[Policy], ...] = (Chunked, Fcfs, DecodeFirst, Sjf, CacheAware, SloAware, Priority)
BY_NAME: dict[str, type[Policy]] = {kind().name.replace("_", "-"): kind for kind in KINDS}
