"""The log: one JSON object for each line, on stderr; on a terminal, lines for people."""

import logging
import sys

import orjson
import structlog


def configure(level: str) -> None:
    """Set the log up, for our own words and for those of libraries."""
    least = logging.getLevelName(level.upper())
    terminal = sys.stderr.isatty()
    last = _for_people() if terminal else structlog.processors.JSONRenderer(serializer=_to_text)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.format_exc_info]),
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _for_people() -> structlog.dev.ConsoleRenderer:
    # Not the prettier traceback: it shows the values of variables, tokens and secrets among them.
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


class _JsonLines(logging.Formatter):
    """What libraries say, in the same form."""

    def format(self, record: logging.LogRecord) -> str:
        told = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return _to_text(told)


def _to_text(told: object, **_: object) -> str:
    return orjson.dumps(told, default=str).decode()
