/** Form state of a policy, with every field as text. */
import type { Finding } from "../../api/problems";
import { type Amount, joinAmount, splitAmount } from "../../forms/quantities";
import { type RequirementsDraft, readDraft, writeDraft } from "../../forms/requirements/drafts";
import { keepUntouched, omitEmpty, type Tree, text } from "../../forms/trees";
import { findPath } from "./paths";
import { FLAGS, LISTS } from "./switches";

export interface RuleDraft {
  path: string;
  min: string;
  max: string;
  options: string[];
  required: boolean;
  locked: boolean;
}

export type Resource = "cpu" | "mem" | "disk";

export interface PolicyDraft {
  rules: RuleDraft[];
  /** An empty value means that the switch is inherited. */
  flags: Record<(typeof FLAGS)[number], string>;
  lists: Record<(typeof LISTS)[number], string[] | null>;
  limit_factor: Record<Resource, string>;
  quota: { gpu: string; cpu: Amount; mem: Amount; runs: string };
  queue: { max_waiting_runs: string; weight: string };
  defaults: RequirementsDraft;
}

export const NEW_RULE: RuleDraft = {
  path: "",
  min: "",
  max: "",
  options: [],
  required: false,
  locked: false,
};

export function readPolicy(content: Tree = {}): PolicyDraft {
  const { rules = {}, switches = {}, limit_factor = {}, quota = {}, queue = {} } = content;
  return {
    rules: Object.entries(rules as Tree).map(([path, rule]) => ({
      path,
      min: text(rule.min),
      max: text(rule.max),
      options: (rule.options ?? []).map(String),
      required: rule.required === true,
      locked: rule.locked === true,
    })),
    flags: collect(FLAGS, (name) => text(switches[name])),
    lists: collect(LISTS, (name) => switches[name] ?? null),
    limit_factor: collect(["cpu", "mem", "disk"], (name) => text(limit_factor[name])),
    quota: {
      gpu: text(quota.gpu),
      cpu: splitAmount(quota.cpu, ""),
      mem: splitAmount(quota.mem, "Gi"),
      runs: text(quota.runs),
    },
    queue: collect(["max_waiting_runs", "weight"], (name) => text(queue[name])),
    defaults: readDraft(content.defaults, "policy"),
  };
}

/** The content to send in place of `content`. Throws if the affinity in the defaults is not valid YAML. */
export function writePolicy(draft: PolicyDraft, content: Tree = {}): Tree {
  const next = keepUntouched(content, write(readPolicy(content)), write(draft));
  const isEmpty = (part: Tree) => Object.values(part).every((value) => value === undefined);
  return Object.fromEntries(Object.entries(next).filter(([, part]) => !isEmpty(part)));
}

/** Errors that only the form can detect. The server checks the rest. */
export function findMistakes(draft: PolicyDraft): Finding[] {
  const paths = draft.rules.map((rule) => rule.path.trim());
  return draft.rules.flatMap((rule, index): Finding[] => {
    const path = `rules.${keyOf(rule, index)}`;
    if (!rule.path.trim()) {
      return isEmptyRule(rule)
        ? []
        : [{ path, rule: "required", message: "the rule has no setting", hint: "choose a setting" }];
    }
    const isDuplicate = paths.indexOf(rule.path.trim()) !== index;
    return isDuplicate
      ? [{ path, rule: "duplicate", message: "duplicate setting", hint: "keep one rule per setting" }]
      : [];
  });
}

/** Identifies a rule in errors: its path, or its index while the path is empty. */
export function keyOf(rule: RuleDraft, index: number): string {
  return rule.path.trim() || `#${index}`;
}

export function isEmptyRule({ path: _, ...rule }: RuleDraft): boolean {
  return !rule.min.trim() && !rule.max.trim() && rule.options.length === 0 && !rule.required && !rule.locked;
}

function write(draft: PolicyDraft): Tree {
  return {
    defaults: writeDraft(draft.defaults),
    limit_factor: trimmed(draft.limit_factor),
    rules: Object.fromEntries(
      draft.rules.filter((rule) => rule.path.trim()).map((rule) => [rule.path.trim(), writeRule(rule)]),
    ),
    switches: {
      ...collect(FLAGS, (name) => flag(draft.flags[name])),
      ...collect(LISTS, (name) => draft.lists[name] ?? undefined),
    },
    quota: trimmed({
      gpu: draft.quota.gpu,
      cpu: joinAmount(draft.quota.cpu),
      mem: joinAmount(draft.quota.mem),
      runs: draft.quota.runs,
    }),
    queue: trimmed(draft.queue),
  };
}

function writeRule({ path, ...rule }: RuleDraft): Tree {
  const isFlag = findPath(path.trim())?.options?.includes("true");
  return {
    ...trimmed({ min: rule.min, max: rule.max }),
    ...(rule.options.length > 0 && { options: isFlag ? rule.options.map(flag) : rule.options }),
    ...(rule.required && { required: true }),
    ...(rule.locked && { locked: true }),
  };
}

function collect<Name extends string, Value>(names: readonly Name[], of: (name: Name) => Value) {
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<Name, Value>;
}

function trimmed(fields: Record<string, string>): Tree {
  return omitEmpty(collect(Object.keys(fields), (name) => fields[name]!.trim()));
}

function flag(value: string): string | boolean | undefined {
  if (value === "true" || value === "false") return value === "true";
  return value || undefined;
}
