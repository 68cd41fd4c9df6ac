"""Programs copied into containers of runs. Standard library only, for Python 3.8 and later; never imported here."""
