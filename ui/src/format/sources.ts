/** Values and who said them, in words. */
import type { Source } from "../api/plans";
import { showValue } from "./values";

export function showSource(source: Source): string {
  switch (source.layer) {
    case "platform":
      return "platform default";
    case "policy":
      return `policy of ${source.scope}`;
    case "template":
      return `template ${source.name}`;
    case "user":
      return "request";
    case "compute_resource":
      return `compute resource ${source.name}`;
    case "imposed":
      return "platform";
  }
}

/** A value as people say it; a limit that is not there is one, too. */
export function showSetting({ path, value }: { path: string; value: unknown }): string {
  if (value === null && path.endsWith(".limits")) return "no limit";
  return showValue(value);
}
