/** What functions are, in a word and in short. */
import { joinWords } from "../../format/commands";
import { type Form, formOf } from "./drafts";
import type { FunctionRecord } from "./requests";

const TITLES: Record<Form, string> = { python: "Python", command: "Command", container: "Container" };

export function showKind(item: FunctionRecord): string {
  return TITLES[formOf(item)];
}

/** The file and what is called in it, the command, or the image. */
export function summarize(item: FunctionRecord): string {
  const { source, handler, command = [], image } = item.content;
  const code = [source, handler].filter(Boolean).join(":");
  const form = formOf(item);
  if (form === "container") return [image, joinWords(command)].filter(Boolean).join(" ");
  return form === "command" ? joinWords(command) : code;
}
