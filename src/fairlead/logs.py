"""Configures logging to stderr: JSON lines, or readable lines on a terminal."""

import logging
import sys

import orjson
import structlog


def configure(level: str) -> None:
    """Configure structlog and library logging."""
    min_level = logging.getLevelName(level.upper())
    terminal = sys.stderr.isatty()
    renderer = _console_renderer() if terminal else structlog.processors.JSONRenderer(serializer=_to_json)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # The console renderer formats exceptions itself.
            *([] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,  # otherwise the logger would be built again for each event
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    # `force` replaces handlers that libraries installed when they were imported.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _console_renderer() -> structlog.dev.ConsoleRenderer:
    # Plain tracebacks, because rich ones show the values of variables, including tokens and secrets.
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


class _JsonLines(logging.Formatter):
    """Formats log records from libraries as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _to_json(entry)


def _to_json(entry: object, **_: object) -> str:
    return orjson.dumps(entry, default=str).decode()
