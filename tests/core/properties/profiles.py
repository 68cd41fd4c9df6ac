"""How many examples Hypothesis tries: enough for every day, or FAIRLEAD_EXAMPLES of them."""

import os

from hypothesis import settings

settings.register_profile("everyday", deadline=None, max_examples=int(os.environ.get("FAIRLEAD_EXAMPLES", "100")))
settings.load_profile("everyday")
