/** Notes next to form fields about values from other sources: defaults, and values that override the input. */
import type { Setting, SourcedValue } from "../api/plans";
import { showSetting, showSource } from "../format/sources";

export interface FieldNote {
  setting: Setting;
  isLocked: boolean;
  /** The requested value, if another source overrides it. */
  overridden?: SourcedValue;
}

/** Returns the note for a setting, or undefined if the requested value applies. */
export function resolve(setting: Setting): FieldNote | undefined {
  const { layer } = setting.source;
  const overridden = setting.overridden.find(({ source }) => source.layer === "user");
  const isEnforced = layer === "enforced";
  // The preview shows enforced values. A field shows an enforced value only if it overrides the request.
  if (layer === "user" || (isEnforced && !overridden)) return undefined;
  if (setting.value === null && !overridden && layer !== "compute_resource") return undefined;
  return { setting, isLocked: layer === "compute_resource" || isEnforced, overridden };
}

/** Formats a note, e.g. "Locked to 2 by cpu-small (you entered 4)". `name` is the label of the value. */
export function describeNote({ setting, isLocked, overridden }: FieldNote, name?: string): string {
  const { source, reason } = setting;
  const value = showSetting(setting);
  const label = name ? `${name}: ` : "";
  if (!isLocked) return `${label}${value} from ${showSource(source)}${reason ? ` (${reason})` : ""}`;
  const owner = source.layer === "compute_resource" ? source.name : "the platform";
  const input = overridden && showSetting({ ...setting, value: overridden.value });
  return `${label}${name ? "locked" : "Locked"} to ${value} by ${owner}${input ? ` (you entered ${input})` : ""}`;
}
