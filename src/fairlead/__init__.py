"""Fairlead gives every AI run the compute it asked for."""

__version__ = "0.1.0"

__all__ = ["__version__"]
