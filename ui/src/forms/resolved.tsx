/** Shows, next to form fields, the values that apply instead of the requested ones. */
import { Group } from "@mantine/core";
import { IconCornerDownRight, IconLock } from "@tabler/icons-react";
import { createContext, type ReactNode, useContext } from "react";
import type { Setting } from "../api/plans";
import { describeNote, type FieldNote, resolve } from "./resolution";
import classes from "./resolved.module.css";

const Settings = createContext<ReadonlyMap<string, Setting>>(new Map());

/** Provides the resolved settings to the fields inside. Fields outside show no notes. */
export function Resolved({ settings, children }: { settings: Setting[]; children: ReactNode }) {
  const byPath = new Map(settings.map((setting) => [setting.path, setting]));
  return <Settings.Provider value={byPath}>{children}</Settings.Provider>;
}

/** Returns the note for a path, or undefined if the requested value applies. */
export function useResolved(path: string | undefined): FieldNote | undefined {
  const setting = useContext(Settings).get(path ?? "");
  return setting && resolve(setting);
}

/** Returns the notes for all paths below a path, such as variables, labels or volumes. */
function useResolvedBelow(path: string): FieldNote[] {
  const settings = [...useContext(Settings).values()];
  const nested = settings.filter((setting) => setting.path.startsWith(`${path}.`));
  return nested.map(resolve).filter((note) => note !== undefined);
}

/** The note for one path. */
export function Note({ path }: { path: string }) {
  const note = useResolved(path);
  return note ? <NoteLine note={note} /> : null;
}

export function NoteLine({ note, name }: { note: FieldNote; name?: string }) {
  const Icon = note.isLocked ? IconLock : IconCornerDownRight;
  return (
    <Group
      gap={5}
      wrap="nowrap"
      align="flex-start"
      className={classes.note}
      data-locked={note.isLocked || undefined}
    >
      <Icon size={13} aria-hidden className={classes.icon} />
      <span>{describeNote(note, name)}</span>
    </Group>
  );
}

/** One note per item below a path. Each volume gets one note, not one per field. */
export function Notes({ path, prefix = "" }: { path: string; prefix?: string }) {
  const notes = useResolvedBelow(path);
  const nameOf = ({ setting }: FieldNote) => setting.path.slice(path.length + 1);
  const byName = new Map<string, FieldNote>();
  for (const note of notes) {
    const name = path === "volumes" ? nameOf(note).split(".")[0]! : nameOf(note);
    if (!byName.has(name) || note.overridden) byName.set(name, note);
  }
  return [...byName].map(([name, note]) => <NoteLine key={name} note={note} name={`${prefix}${name}`} />);
}
