"""Folders in a run's container that are reserved for the platform."""

HOME = "/fairlead"  # writable home folder
BOOTSTRAP = "/etc/fairlead"  # the ConfigMap with the bootstrap program and the code, read-only
SHARED_MEMORY = "/dev/shm"
