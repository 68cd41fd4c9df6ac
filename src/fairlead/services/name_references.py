"""Updates names in policies and settings when an object is renamed."""

from dataclasses import replace

from fairlead.model.records import JSON, SETTINGS, PolicyRecord, SettingsRecord
from fairlead.model.scopes import PLATFORM
from fairlead.services.unit_of_work import UnitOfWork


def rewrite_policies(unit: UnitOfWork, field: str, old: str, new: str) -> None:
    """Replace a name in one field of all policies and of the platform defaults."""
    # No permission for these policies is required, because a rename must never leave a reference to a missing object.
    for policy in unit.tx.find(PolicyRecord):
        content = _rewrite(policy.content, field, old, new)
        if content != policy.content:
            after = replace(policy, content=content, **unit.update_fields(policy))
            unit.save(policy, after, "policy.edit", policy.scope, policy.scope)
    settings = unit.tx.get(SettingsRecord, id=SETTINGS)
    if settings is not None and settings.defaults.get(field) == old:
        changed = replace(settings, defaults=settings.defaults | {field: new}, **unit.update_fields(settings))
        unit.save(settings, changed, "settings.edit", SETTINGS, PLATFORM)


def _rewrite(content: JSON, field: str, old: str, new: str) -> JSON:
    defaults, rules = content.get("defaults", {}), content.get("rules", {})
    if defaults.get(field) == old:
        content = content | {"defaults": defaults | {field: new}}
    options = rules.get(field, {}).get("options", ())
    if old in options:
        renamed = [new if option == old else option for option in options]
        content = content | {"rules": rules | {field: rules[field] | {"options": renamed}}}
    return content
