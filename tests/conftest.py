"""Stores for every test that asks for one."""

pytest_plugins = ("tests.databases",)
