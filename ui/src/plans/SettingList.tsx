/** Lists resolved settings with their sources, reasons and overridden values. Enforced settings are collapsed. */
import { Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Setting } from "../api/plans";
import { showSetting, showSource } from "../format/sources";
import { TextField } from "../forms/TextField";
import { Collapsible } from "./Collapsible";
import classes from "./SettingList.module.css";

/** Longer lists get a filter. */
const FILTER_THRESHOLD = 12;

export function SettingList({ settings }: { settings: Setting[] }) {
  const [search, setSearch] = useState("");
  const query = search.trim().toLowerCase();
  const matches = settings.filter((setting) => describe(setting).includes(query));
  const enforced = matches.filter(isEnforced);
  const others = matches.filter((setting) => !isEnforced(setting));
  return (
    <Stack gap="xs">
      {settings.length > FILTER_THRESHOLD && (
        <TextField
          size="xs"
          aria-label="Filter settings"
          placeholder="Filter by field, value or source"
          value={search}
          onChange={setSearch}
        />
      )}
      <Items label="Settings" settings={others} />
      {enforced.length > 0 && (
        <Collapsible
          title={enforced.length === 1 ? "1 enforced setting" : `${enforced.length} enforced settings`}
          isOpen={query !== ""}
        >
          <Items label="Enforced settings" settings={enforced} />
        </Collapsible>
      )}
      {matches.length === 0 && (
        <Text size="sm" c="dimmed">
          {query ? "No matching settings." : "No settings."}
        </Text>
      )}
    </Stack>
  );
}

function Items({ label, settings }: { label: string; settings: Setting[] }) {
  if (settings.length === 0) return null;
  return (
    <div className={classes.settings}>
      <ul aria-label={label}>
        {settings.map((setting) => (
          <li key={setting.path}>
            <span className={classes.path}>{setting.path}</span>
            <span className={classes.value}>{showSetting(setting)}</span>
            <span className={classes.source} data-layer={setting.source.layer}>
              {showSource(setting.source)}
            </span>
            <Notes setting={setting} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Notes({ setting }: { setting: Setting }) {
  const overridden = setting.overridden.filter(({ value }) => !isSame(value, setting.value));
  const combined = setting.combined ?? [];
  if (!setting.reason && overridden.length === 0 && combined.length === 0) return null;
  return (
    <div className={classes.notes}>
      {setting.reason && <div>{setting.reason}</div>}
      {combined.length > 0 && (
        <div>combines {combined.map(({ source }) => showSource(source)).join(" and ")}</div>
      )}
      {overridden.map(({ value, source }, index) => (
        <div key={`${showSource(source)} ${index}`}>
          overrides <del>{showSetting({ path: setting.path, value })}</del> ({showSource(source)})
        </div>
      ))}
    </div>
  );
}

function isEnforced(setting: Setting): boolean {
  return setting.source.layer === "enforced" && setting.overridden.length === 0;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function describe(setting: Setting): string {
  return [setting.path, showSetting(setting), showSource(setting.source)].join(" ").toLowerCase();
}
