/** Labels and short descriptions for functions. */
import { joinWords } from "../../format/commands";
import { type SourceType, sourceTypeOf } from "./drafts";
import type { FunctionRecord } from "./requests";

const TITLES: Record<SourceType, string> = { python: "Python", command: "Command", container: "Container" };

export function showKind(item: FunctionRecord): string {
  return TITLES[sourceTypeOf(item)];
}

/** The file and handler, the command, or the image. */
export function summarize(item: FunctionRecord): string {
  const { source, handler, command = [], image } = item.content;
  const code = [source, handler].filter(Boolean).join(":");
  const sourceType = sourceTypeOf(item);
  if (sourceType === "container") return [image, joinWords(command)].filter(Boolean).join(" ");
  return sourceType === "command" ? joinWords(command) : code;
}
