"""Attempts of a hostile run to escape from its isolation or its limits. Packed as the code of runs."""

from tests.security.hostile_runs import files, limits, privileges, processes, system_calls
from tests.security.hostile_runs.attempts import LIMITS, TARGETS, exceed, main

__all__ = ["LIMITS", "TARGETS", "exceed", "files", "limits", "main", "privileges", "processes", "system_calls"]
