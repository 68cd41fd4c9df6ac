"""The Python SDK: a client of the HTTP API. It imports only the model and the errors."""
