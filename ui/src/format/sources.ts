/** Labels for values and their sources. */
import type { Source } from "../api/plans";
import { showValue } from "./values";

export function showSource(source: Source): string {
  switch (source.layer) {
    case "platform":
      return "platform default";
    case "policy":
      return `${source.scope} policy`;
    case "template":
      return `template ${source.name}`;
    case "user":
      return "request";
    case "compute_resource":
      return `compute resource ${source.name}`;
    case "enforced":
      return "enforced by the platform";
  }
}

/** A formatted value. A missing limit is shown as "no limit". */
export function showSetting({ path, value }: { path: string; value: unknown }): string {
  if (value === null && path.endsWith(".limits")) return "no limit";
  return showValue(value);
}
