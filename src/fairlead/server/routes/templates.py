"""Routes for templates."""

from fairlead.model.assets import Template
from fairlead.model.records import TemplateRecord
from fairlead.server.routes.assets import asset_routes

router = asset_routes("/templates", "templates", TemplateRecord, Template, lambda services: services.templates)
