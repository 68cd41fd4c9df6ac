/** Form state of a function, and its conversion to and from the API. */
import type { Finding } from "../../api/problems";
import { joinWords } from "../../format/commands";
import type { Code, FunctionRecord } from "./requests";

/** The content of a function. Fields without a value are absent. */
export interface Content {
  image: string;
  pull_policy: string;
  pull_secrets: string[];
  source: string;
  code: string;
  handler: string;
  command: string[];
  args: string[];
  port: number;
}

export type SourceType = "python" | "command" | "container";
export const SOURCE_TYPES: { value: SourceType; label: string }[] = [
  { value: "python", label: "Python" },
  { value: "command", label: "Command" },
  { value: "container", label: "Container" },
];
export const DEFAULT_SOURCE = "main.py";

export interface FunctionDraft {
  sourceType: SourceType;
  /** The text of a single file. Null for a folder or a binary file, which the form does not change. */
  text: string | null;
  source: string;
  handler: string;
  command: string;
  args: string;
  image: string;
  port: string;
  pullPolicy: string;
}

export function sourceTypeOf({ kind, content }: Pick<FunctionRecord, "kind" | "content">): SourceType {
  if (kind === "container") return "container";
  return content.command?.length && !content.source && !content.code ? "command" : "python";
}

export function readDraft(record?: FunctionRecord, code?: Code | null): FunctionDraft {
  const content = record?.content ?? {};
  return {
    sourceType: record ? sourceTypeOf(record) : "python",
    text: textOf(code, content.source),
    source: content.source ?? (record ? "" : DEFAULT_SOURCE),
    handler: content.handler ?? "",
    command: joinWords(content.command ?? []),
    args: joinWords(content.args ?? []),
    image: content.image ?? "",
    port: content.port === undefined || content.port === null ? "" : String(content.port),
    pullPolicy: content.pull_policy ?? "",
  };
}

/** The request body. Values without a form field stay unchanged if the source type is the same. */
export function writeFunction(draft: FunctionDraft, original?: FunctionRecord): Record<string, unknown> {
  const shared = { image: draft.image.trim() || undefined, pull_secrets: original?.content.pull_secrets };
  if (draft.sourceType === "container") {
    return {
      kind: "container",
      ...shared,
      command: draft.command.trim() || undefined,
      args: draft.args.trim() || undefined,
      port: draft.port.trim() ? numberOr(draft.port.trim()) : undefined,
      pull_policy: draft.pullPolicy || undefined,
    };
  }
  const { args, port, pull_policy, command } =
    original && sourceTypeOf(original) === draft.sourceType ? original.content : {};
  const unchanged = { ...shared, args, port, pull_policy };
  if (draft.sourceType === "command") return { kind: "python", ...unchanged, command: draft.command };
  return {
    kind: "python",
    ...unchanged,
    ...(draft.text === null ? { code: original?.content.code } : { text: draft.text }),
    source: draft.source.trim() || undefined,
    handler: draft.handler.trim() || undefined,
    command,
  };
}

/** Errors found before sending: names that would change the URL, and missing values. The server checks the rest. */
export function findMistakes(name: string, draft: FunctionDraft): Finding[] {
  const errors: Finding[] = [];
  if (name === "") {
    errors.push({ path: "name", rule: "required", message: "enter a name" });
  } else if (name.includes("/") || /^\.{1,2}$/.test(name)) {
    const hint = "use letters, digits, '.', '_', '+' and '-', and start with a letter or digit";
    errors.push({ path: "name", rule: "name", message: `'${name}' is not a valid name`, hint });
  }
  if (draft.sourceType === "python" && draft.text !== null && !draft.text.trim()) {
    errors.push({ path: "text", rule: "required", message: "enter the code" });
  }
  if (draft.sourceType === "command" && !draft.command.trim()) {
    errors.push({ path: "command", rule: "required", message: "enter a command" });
  }
  return errors;
}

/** The text of a function that is a single file. A folder with one file is still a folder. */
function textOf(code: Code | null | undefined, source: string | undefined): string | null {
  if (!code) return "";
  const [file, ...others] = code.files;
  return file && others.length === 0 && file.path === source ? file.text : null;
}

/** Keeps a port that is not a number as a string, so that the server reports the error. */
function numberOr(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}
