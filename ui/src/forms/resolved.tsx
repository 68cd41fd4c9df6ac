/** What a field comes to whatever is typed there, told at the field: who wins over it, or whose value fills it. */
import { Group } from "@mantine/core";
import { IconCornerDownRight, IconLock } from "@tabler/icons-react";
import { createContext, type ReactNode, useContext } from "react";
import type { Setting } from "../api/plans";
import { resolve, showTold, type Told } from "./resolution";
import classes from "./resolved.module.css";

const Settings = createContext<ReadonlyMap<string, Setting>>(new Map());

/** Lets the fields inside tell what they come to. Elsewhere they tell nothing. */
export function Resolved({ settings, children }: { settings: Setting[]; children: ReactNode }) {
  const known = new Map(settings.map((setting) => [setting.path, setting]));
  return <Settings.Provider value={known}>{children}</Settings.Provider>;
}

/** What there is to tell at a path; nothing where the value is that of the request. */
export function useResolved(path: string | undefined): Told | undefined {
  const setting = useContext(Settings).get(path ?? "");
  return setting && resolve(setting);
}

/** The same for whatever is below a path: variables, labels, volumes. */
function useAllResolved(path: string): Told[] {
  const known = [...useContext(Settings).values()];
  const here = known.filter((setting) => setting.path.startsWith(`${path}.`));
  return here.map(resolve).filter((told) => told !== undefined);
}

/** One line below a field. */
export function Note({ path }: { path: string }) {
  const told = useResolved(path);
  return told ? <ToldLine told={told} /> : null;
}

export function ToldLine({ told, name }: { told: Told; name?: string }) {
  const Icon = told.isLocked ? IconLock : IconCornerDownRight;
  return (
    <Group
      gap={5}
      wrap="nowrap"
      align="flex-start"
      className={classes.note}
      data-locked={told.isLocked || undefined}
    >
      <Icon size={13} aria-hidden className={classes.icon} />
      <span>{showTold(told, name)}</span>
    </Group>
  );
}

/** A line for each thing below a path, by its name: of a volume with all its parts one. `of` stands before names. */
export function Notes({ path, of = "" }: { path: string; of?: string }) {
  const all = useAllResolved(path);
  const names = (told: Told) => told.setting.path.slice(path.length + 1);
  const firsts = new Map<string, Told>();
  for (const told of all) {
    const name = path === "volumes" ? names(told).split(".")[0]! : names(told);
    if (!firsts.has(name) || told.lost) firsts.set(name, told);
  }
  return [...firsts].map(([name, told]) => <ToldLine key={name} told={told} name={`${of}${name}: `} />);
}
