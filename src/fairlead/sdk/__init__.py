"""The Python SDK: a client of the HTTP API. It imports only the model, the errors and `source_code`."""
