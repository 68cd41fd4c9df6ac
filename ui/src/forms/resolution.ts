/** What a field resolves to, whatever is typed there: a value that overrides it, or one that fills it. */
import type { Said, Setting } from "../api/plans";
import { showSetting, showSource } from "../format/sources";

export interface Told {
  setting: Setting;
  isLocked: boolean;
  /** What was asked for here, and does not count. */
  lost?: Said;
}

/** What there is to show at a field for a setting; undefined if it is the value of the request. */
export function resolve(setting: Setting): Told | undefined {
  const { layer } = setting.source;
  const lost = setting.overrode.find((said) => said.source.layer === "user");
  const isImposed = layer === "imposed";
  // What everybody gets is told in the preview; here only where something was asked for.
  if (layer === "user" || (isImposed && !lost)) return undefined;
  if (setting.value === null && !lost && layer !== "compute_resource") return undefined;
  return { setting, isLocked: layer === "compute_resource" || isImposed, lost };
}

export function showTold({ setting, isLocked, lost }: Told, name = ""): string {
  const value = name + showSetting(setting);
  const source = showSource(setting.source);
  if (!isLocked) return `${value}, from the ${source}${setting.why ? `: ${setting.why}` : ""}`;
  const over = lost
    ? `${showSetting({ ...setting, value: lost.value })} that is typed here`
    : "what is typed here";
  return `${value}, set by the ${source}: it wins over ${over}`;
}
