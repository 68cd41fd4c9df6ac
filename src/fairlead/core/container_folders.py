"""Folders in the container of a run that are reserved for the platform."""

HOME = "/fairlead"  # writable home folder
BOOTSTRAP = "/etc/fairlead"
SHARED_MEMORY = "/dev/shm"
