"""Programs copied into run containers. Standard library only, for Python 3.8 and later; never imported by Fairlead."""
