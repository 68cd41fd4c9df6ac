"""Folders of a run's container that belong to the platform."""

HOME = "/fairlead"  # writable, and the home of whoever the run runs as
BOOTSTRAP = "/etc/fairlead"
SHARED_MEMORY = "/dev/shm"
