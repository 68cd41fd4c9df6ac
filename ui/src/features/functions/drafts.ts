/** A function as it is edited, and as the server keeps it. */
import type { Finding } from "../../api/problems";
import { joinWords } from "../../format/commands";
import type { Code, FunctionRecord } from "./requests";

/** What a function says; what it does not say is left out. */
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

export type Form = "python" | "command" | "container";
export const FORMS: { value: Form; label: string }[] = [
  { value: "python", label: "Python" },
  { value: "command", label: "Command" },
  { value: "container", label: "Container" },
];
export const DEFAULT_SOURCE = "main.py";

export interface FunctionDraft {
  form: Form;
  /** The code of the one file; null where it is a folder or no text, and stays as it is. */
  text: string | null;
  source: string;
  handler: string;
  command: string;
  args: string;
  image: string;
  port: string;
  pullPolicy: string;
}

export function formOf({ kind, content }: Pick<FunctionRecord, "kind" | "content">): Form {
  if (kind === "container") return "container";
  return content.command?.length && !content.source && !content.code ? "command" : "python";
}

export function readDraft(record?: FunctionRecord, code?: Code | null): FunctionDraft {
  const content = record?.content ?? {};
  return {
    form: record ? formOf(record) : "python",
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

/** What is sent. What the form has no field for is sent as it was read, as long as it is still the same form. */
export function writeFunction(draft: FunctionDraft, read?: FunctionRecord): Record<string, unknown> {
  const shared = { image: draft.image.trim() || undefined, pull_secrets: read?.content.pull_secrets };
  if (draft.form === "container") {
    return {
      kind: "container",
      ...shared,
      command: draft.command.trim() || undefined,
      args: draft.args.trim() || undefined,
      port: draft.port.trim() ? numberOr(draft.port.trim()) : undefined,
      pull_policy: draft.pullPolicy || undefined,
    };
  }
  const { args, port, pull_policy, command } = read && formOf(read) === draft.form ? read.content : {};
  const unseen = { ...shared, args, port, pull_policy };
  if (draft.form === "command") return { kind: "python", ...unseen, command: draft.command };
  return {
    kind: "python",
    ...unseen,
    ...(draft.text === null ? { code: read?.content.code } : { text: draft.text }),
    source: draft.source.trim() || undefined,
    handler: draft.handler.trim() || undefined,
    command,
  };
}

/**
 * What is wrong before anything is sent: a name that would lead to another address, and a function of nothing. The
 * server checks the rest.
 */
export function findMistakes(name: string, draft: FunctionDraft): Finding[] {
  const found: Finding[] = [];
  if (name === "") {
    found.push({ path: "name", rule: "required", message: "there is no name yet" });
  } else if (name.includes("/") || /^\.{1,2}$/.test(name)) {
    const hint = "use letters, digits, '.', '_', '+' and '-', beginning with a letter or digit";
    found.push({ path: "name", rule: "name", message: `is no valid name: '${name}'`, hint });
  }
  if (draft.form === "python" && draft.text !== null && !draft.text.trim()) {
    found.push({ path: "text", rule: "required", message: "there is no code yet" });
  }
  if (draft.form === "command" && !draft.command.trim()) {
    found.push({ path: "command", rule: "required", message: "there is no command yet" });
  }
  return found;
}

/** The text of the one file that a function is. A folder stays one, also where a single file is in it. */
function textOf(code: Code | null | undefined, source: string | undefined): string | null {
  if (!code) return "";
  const [only, ...others] = code.files;
  return only && others.length === 0 && only.path === source ? only.text : null;
}

/** The server says what is wrong with a port that is no number. */
function numberOr(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}
