"""Hypothesis' settings, before any test is imported."""

import tests.core.properties.profiles  # noqa: F401
