"""The Python door: what programs do with a server. It shares only the model and the errors with it."""
