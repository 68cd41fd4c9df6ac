/** Every value that was decided: who set it, whom it overrode, and why. What the platform imposes is folded away. */
import { Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Setting } from "../api/plans";
import { showSetting, showSource } from "../format/sources";
import { TextField } from "../forms/TextField";
import { Folded } from "./Folded";
import classes from "./Values.module.css";

const MANY = 12;

export function Values({ settings }: { settings: Setting[] }) {
  const [search, setSearch] = useState("");
  const wanted = search.trim().toLowerCase();
  const found = settings.filter((setting) => describe(setting).includes(wanted));
  const imposed = found.filter(isImposed);
  const said = found.filter((setting) => !isImposed(setting));
  return (
    <Stack gap="xs">
      {settings.length > MANY && (
        <TextField
          size="xs"
          aria-label="Filter values"
          placeholder="Filter by field, value or source"
          value={search}
          onChange={setSearch}
        />
      )}
      <ValueList label="Values" settings={said} />
      {imposed.length > 0 && (
        <Folded title={`${imposed.length} that the platform sets for every run`} isOpen={wanted !== ""}>
          <ValueList label="Values of the platform" settings={imposed} />
        </Folded>
      )}
      {found.length === 0 && (
        <Text size="sm" c="dimmed">
          {wanted ? "No value has that." : "There are no values."}
        </Text>
      )}
    </Stack>
  );
}

function ValueList({ label, settings }: { label: string; settings: Setting[] }) {
  if (settings.length === 0) return null;
  return (
    <div className={classes.values}>
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
  const lost = setting.overrode.filter((said) => !isSame(said.value, setting.value));
  const combined = setting.combined ?? [];
  if (!setting.why && lost.length === 0 && combined.length === 0) return null;
  return (
    <div className={classes.notes}>
      {setting.why && <div>{setting.why}</div>}
      {combined.length > 0 && (
        <div>What {combined.map((said) => showSource(said.source)).join(" and ")} say must all hold</div>
      )}
      {lost.map((said, place) => (
        <div key={`${showSource(said.source)} ${place}`}>
          instead of <del>{showSetting({ path: setting.path, value: said.value })}</del> (
          {showSource(said.source)})
        </div>
      ))}
    </div>
  );
}

function isImposed(setting: Setting): boolean {
  return setting.source.layer === "imposed" && setting.overrode.length === 0;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function describe(setting: Setting): string {
  return [setting.path, showSetting(setting), showSource(setting.source)].join(" ").toLowerCase();
}
