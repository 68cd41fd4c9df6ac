/** A run while it is asked for: every field as text, and back. What the form does not show is kept as it is. */
import { stringify } from "yaml";
import type { Request } from "../../../api/runs";
import { joinWords } from "../../../format/commands";
import {
  type RequirementsDraft,
  readDraft,
  tryWriting,
  writeDraft,
} from "../../../forms/requirements/drafts";
import { isNothing, isTree, keepUntouched, said, type Tree, text } from "../../../forms/trees";
import { parseInputs } from "./inputs";

export interface RunDraft {
  /** A kept function by its name, or one in all its words, as an earlier run had it. */
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
  /** Empty: once, now. */
  cron: string;
  timezone: string;
  strict: boolean;
  requirements: RequirementsDraft;
  /** What it began with, without the requirements. */
  read: Tree;
}

const OWN = [
  ...["function", "action", "template", "inputs", "args", "replicas", "deadline", "idle_timeout"],
  ...["retries", "on_oom", "priority", "schedule", "strict"],
];

export function readRun(request: Request = {}): RunDraft {
  // A token is of one preview.
  const { plan_token: _, ...asked } = request as Tree;
  const entries = Object.entries(asked);
  const read = Object.fromEntries(entries.filter(([key]) => OWN.includes(key)));
  const requirements = Object.fromEntries(entries.filter(([key]) => !OWN.includes(key)));
  return {
    function: read.function ?? "",
    action: read.action ?? "job",
    template: text(read.template),
    inputs: isNothing(read.inputs) ? "" : stringify(read.inputs, { lineWidth: 0 }),
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
    // A run that says nothing of a limit leaves it to whoever does.
    requirements: readDraft(requirements, "policy"),
    read,
  };
}

/** What would be sent, or why nothing can be. */
export function tryWritingRun(draft: RunDraft) {
  const inputs = parseInputs(draft.inputs);
  const { written, mistakes } = tryWriting("", () => writeDraft(draft.requirements));
  const wrong = [
    ...mistakes.map((found) => ({ ...found, path: "affinity" })),
    ...(inputs.wrong ? [{ path: "inputs", rule: "yaml", message: inputs.wrong }] : []),
  ];
  if (!written || wrong.length > 0) return { written: null, mistakes: wrong };
  const own = keepUntouched(draft.read, writeOwn(readRun(draft.read)), writeOwn(draft));
  return { written: { ...own, ...written } as Request, mistakes: [] };
}

/** The draft with other values in it: what stays the same stays as it was typed. */
export function follow(draft: RunDraft, before: Request, after: Request): RunDraft {
  const next = readRun(after);
  const isSame = (key: string) => JSON.stringify(before[key]) === JSON.stringify(after[key]);
  if (isSame("inputs")) next.inputs = draft.inputs;
  if (isSame("args")) next.args = draft.args;
  if (isSame("deadline")) next.deadline = draft.deadline;
  if (isSame("idle_timeout")) next.idleTimeout = draft.idleTimeout;
  if (isSame("affinity")) next.requirements.affinity = draft.requirements.affinity;
  return next;
}

/** A request with a change in it: what is null there is left out here (RFC 7386). */
export function merge(request: Tree, change: Tree): Tree {
  const merged = { ...request };
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete merged[key];
    else merged[key] = isTree(value) ? merge(isTree(merged[key]) ? merged[key] : {}, value) : value;
  }
  return merged;
}

export function nameOf({ function: chosen }: RunDraft): string {
  return typeof chosen === "string" ? chosen : text(chosen.name);
}

function writeOwn(draft: RunDraft): Tree {
  return said({
    function: draft.function,
    action: draft.action === "job" ? undefined : draft.action,
    template: draft.template,
    inputs: parseInputs(draft.inputs).value,
    args: draft.args.trim(),
    replicas: draft.replicas.trim(),
    deadline: draft.deadline.trim(),
    idle_timeout: draft.idleTimeout.trim(),
    retries: draft.retries.trim(),
    on_oom: said({ grow: draft.growth.trim(), max: draft.mostMemory.trim() }),
    priority: draft.priority.trim(),
    schedule: said({ cron: draft.cron.trim(), timezone: draft.timezone.trim() }),
    strict: draft.strict || undefined,
  });
}

/** Seconds as they are written: 5400 is 90m. */
function writeDuration(seconds: unknown): string {
  const whole = Number(seconds);
  if (!seconds || !Number.isInteger(whole)) return text(seconds);
  const [unit, size] = (
    [
      ["d", 86_400],
      ["h", 3_600],
      ["m", 60],
    ] as const
  ).find(([, size]) => whole % size === 0) ?? ["s", 1];
  return `${whole / size}${unit}`;
}
