/** Drafts of runs, with every field as text. Values that the form does not show are preserved. */
import { stringify } from "yaml";
import type { Request } from "../../../api/runs";
import { joinWords } from "../../../format/commands";
import {
  type RequirementsDraft,
  readDraft,
  tryWriting,
  writeDraft,
} from "../../../forms/requirements/drafts";
import { isEmpty, isTree, keepUntouched, omitEmpty, type Tree, text } from "../../../forms/trees";
import { parseInputs } from "./inputs";

export interface RunDraft {
  /** The name of a saved function, or the full definition from an earlier run. */
  function: string | Tree;
  action: string;
  template: string;
  inputs: string;
  args: string;
  replicas: string;
  deadline: string;
  idleTimeout: string;
  retries: string;
  growth: string;
  mostMemory: string;
  priority: string;
  /** A cron expression. Empty: run once immediately. */
  cron: string;
  timezone: string;
  strict: boolean;
  requirements: RequirementsDraft;
  /** The request that the draft was created from, without its requirements. */
  read: Tree;
}

const RUN_FIELDS = [
  ...["function", "action", "template", "inputs", "args", "replicas", "deadline", "idle_timeout"],
  ...["retries", "on_oom", "priority", "schedule", "strict"],
];

export function readRun(request: Request = {}): RunDraft {
  // A plan token belongs to one preview.
  const { plan_token: _, ...fields } = request as Tree;
  const entries = Object.entries(fields);
  const read = Object.fromEntries(entries.filter(([key]) => RUN_FIELDS.includes(key)));
  const requirements = Object.fromEntries(entries.filter(([key]) => !RUN_FIELDS.includes(key)));
  return {
    function: read.function ?? "",
    action: read.action ?? "job",
    template: text(read.template),
    inputs: isEmpty(read.inputs) ? "" : stringify(read.inputs, { lineWidth: 0 }),
    args: Array.isArray(read.args) ? joinWords(read.args.map(String)) : text(read.args),
    replicas: text(read.replicas),
    deadline: writeDuration(read.deadline),
    idleTimeout: writeDuration(read.idle_timeout),
    retries: text(read.retries),
    growth: text(read.on_oom?.grow),
    mostMemory: text(read.on_oom?.max),
    priority: text(read.priority),
    cron: text(read.schedule?.cron),
    timezone: text(read.schedule?.timezone),
    strict: read.strict ?? false,
    // A run without a limit uses the default from templates and policies.
    requirements: readDraft(requirements, "policy"),
    read,
  };
}

/** Returns the request, or the errors in the draft. */
export function tryWritingRun(draft: RunDraft) {
  const inputs = parseInputs(draft.inputs);
  const { body: requirements, errors } = tryWriting("", () => writeDraft(draft.requirements));
  const allErrors = [
    ...errors.map((error) => ({ ...error, path: "affinity" })),
    ...(inputs.error ? [{ path: "inputs", rule: "yaml", message: inputs.error }] : []),
  ];
  if (!requirements || allErrors.length > 0) return { request: null, errors: allErrors };
  const fields = keepUntouched(draft.read, writeRunFields(readRun(draft.read)), writeRunFields(draft));
  return { request: { ...fields, ...requirements } as Request, errors: [] };
}

/** Updates the draft to match a changed request. Unchanged values keep the text that was typed. */
export function updateDraft(draft: RunDraft, before: Request, after: Request): RunDraft {
  const next = readRun(after);
  const isSame = (key: string) => JSON.stringify(before[key]) === JSON.stringify(after[key]);
  if (isSame("inputs")) next.inputs = draft.inputs;
  if (isSame("args")) next.args = draft.args;
  if (isSame("deadline")) next.deadline = draft.deadline;
  if (isSame("idle_timeout")) next.idleTimeout = draft.idleTimeout;
  if (isSame("affinity")) next.requirements.affinity = draft.requirements.affinity;
  return next;
}

/** Applies a JSON merge patch to a request (RFC 7386). */
export function merge(request: Tree, change: Tree): Tree {
  const merged = { ...request };
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete merged[key];
    else merged[key] = isTree(value) ? merge(isTree(merged[key]) ? merged[key] : {}, value) : value;
  }
  return merged;
}

export function nameOf({ function: selected }: RunDraft): string {
  return typeof selected === "string" ? selected : text(selected.name);
}

function writeRunFields(draft: RunDraft): Tree {
  return omitEmpty({
    function: draft.function,
    action: draft.action === "job" ? undefined : draft.action,
    template: draft.template,
    inputs: parseInputs(draft.inputs).value,
    args: draft.args.trim(),
    replicas: draft.replicas.trim(),
    deadline: draft.deadline.trim(),
    idle_timeout: draft.idleTimeout.trim(),
    retries: draft.retries.trim(),
    on_oom: omitEmpty({ grow: draft.growth.trim(), max: draft.mostMemory.trim() }),
    priority: draft.priority.trim(),
    schedule: omitEmpty({ cron: draft.cron.trim(), timezone: draft.timezone.trim() }),
    strict: draft.strict || undefined,
  });
}

/** Formats seconds as a duration: 5400 is "90m". */
function writeDuration(seconds: unknown): string {
  const count = Number(seconds);
  if (!seconds || !Number.isInteger(count)) return text(seconds);
  const [unit, size] = (
    [
      ["d", 86_400],
      ["h", 3_600],
      ["m", 60],
    ] as const
  ).find(([, size]) => count % size === 0) ?? ["s", 1];
  return `${count / size}${unit}`;
}
