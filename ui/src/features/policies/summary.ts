/** Summarizes one policy, or the effective policy of a scope, as lines of text. */
import type { Schemas } from "../../api/client";
import { listLeaves, showValue } from "../../format/values";
import { showByteQuantity } from "../../forms/quantities";
import type { Tree } from "../../forms/trees";
import { isByteAmount, labelOf } from "./paths";
import type { EffectivePolicy } from "./requests";
import { describeSwitch, SWITCHES } from "./switches";

type EffectiveValue = Schemas["EffectiveValue"];
type EffectiveRule = Schemas["EffectiveRule"];
type Quota = Partial<Schemas["EffectiveQuota"]>;

export interface SummaryLine {
  /** The setting that the text describes. Undefined if the text already names it. */
  setting?: string;
  text: string;
  /** The scope that sets the value, or null for the built-in default. */
  scope: string | null;
}

export interface SummarySection {
  title: string;
  note?: string;
  lines: SummaryLine[];
}

const RESOURCES: Record<string, string> = { cpu: "CPU compute", mem: "CPU memory", disk: "Disk" };
const QUOTAS: [keyof Schemas["ScopeUsage"], string][] = [
  ["gpu", "GPU devices"],
  ["cpu", "CPU compute"],
  ["mem", "CPU memory"],
  ["runs", "Runs"],
];
/** Paths with values in seconds. */
const DURATIONS = ["deadline", "idle_timeout"];
const DURATION_UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** Everything that applies to a scope. */
export function summarizeEffective(policy: EffectivePolicy): SummarySection[] {
  const rules = Object.entries(policy.rules).flatMap(([path, rule]) => listRule(path, rule));
  const switches = SWITCHES.map(({ name }) => ({ name, ...policy.switches[name]! }));
  const sections: SummarySection[] = [
    { title: "Rules", note: rules.length > 0 ? undefined : "None", lines: rules },
    {
      title: "Switches",
      lines: switches.map(({ name, value, source }) => ({
        text: describeSwitch(name, value),
        scope: source.scope,
      })),
    },
    {
      title: "Limit factors",
      note: "Default limits as a multiple of the request",
      lines: Object.entries(policy.limit_factor).map(([name, { value, source }]) => ({
        ...describeFactor(name, value),
        scope: source.scope,
      })),
    },
    {
      title: "Quota",
      note: "Total for all runs in a scope",
      lines: policy.quotas.flatMap((quota) => listQuota(quota)),
    },
    {
      title: "Queue",
      note: "For each project",
      lines: Object.entries(policy.queue).map(([name, { value, source }]) => ({
        ...describeQueue(name, value),
        scope: source.scope,
      })),
    },
    {
      title: "Defaults",
      note: policy.defaults.length > 1 ? "The nearest scope's value applies" : undefined,
      // The nearest scope comes first, because it overrides the others.
      lines: policy.defaults
        .toReversed()
        .flatMap(({ scope, requirements }) => listDefaults(requirements, scope)),
    },
  ];
  return sections.filter((section) => section.title === "Rules" || section.lines.length > 0);
}

/** The settings of a single policy. */
export function summarizePolicy(content: Tree, scope: string): SummarySection[] {
  const withSource = (value: unknown): EffectiveValue => ({
    value,
    source: { layer: "policy", scope, name: null, revision: null },
  });
  const rules = Object.entries((content.rules ?? {}) as Tree).flatMap(([path, rule]) =>
    listRule(path, {
      ...(rule.min !== undefined && { min: [withSource(rule.min)] }),
      ...(rule.max !== undefined && { max: [withSource(rule.max)] }),
      ...(rule.options && { options: [withSource(rule.options)] }),
      ...(rule.required && { required: withSource(true) }),
      ...(rule.locked && { locked: withSource(true) }),
    }),
  );
  const switches = Object.entries((content.switches ?? {}) as Tree);
  const factors = Object.entries((content.limit_factor ?? {}) as Tree);
  const queue = Object.entries((content.queue ?? {}) as Tree);
  const sections = [
    { title: "Rules", lines: rules },
    {
      title: "Switches",
      lines: switches.map(([name, value]) => ({ text: describeSwitch(name, value), scope })),
    },
    {
      title: "Limit factors",
      lines: factors.map(([name, value]) => ({ ...describeFactor(name, value), scope })),
    },
    { title: "Quota", lines: listQuota({ ...content.quota, scope }) },
    { title: "Queue", lines: queue.map(([name, value]) => ({ ...describeQueue(name, value), scope })) },
    { title: "Defaults", lines: listDefaults(content.defaults ?? {}, scope) },
  ];
  return sections.filter((section) => section.lines.length > 0);
}

function listRule(path: string, rule: EffectiveRule): SummaryLine[] {
  const setting = labelOf(path);
  const makeLine = (text: string, { source }: EffectiveValue) => ({ setting, text, scope: source.scope });
  return [
    ...(rule.min ?? []).map((bound) => makeLine(`at least ${showSetting(path, bound.value)}`, bound)),
    ...(rule.max ?? []).map((bound) => makeLine(`at most ${showSetting(path, bound.value)}`, bound)),
    ...(rule.options ?? []).map((options) => makeLine(showOptions(options.value as unknown[]), options)),
    ...(rule.required ? [makeLine("required", rule.required)] : []),
    ...(rule.locked ? [makeLine("locked for templates and users", rule.locked)] : []),
  ];
}

function showSetting(path: string, value: unknown): string {
  if (DURATIONS.includes(path)) return showDuration(value);
  return isByteAmount(path) ? showByteQuantity(String(value)) : showValue(value);
}

function showQuota(name: string, amount: string | number): string {
  return name === "mem" ? showByteQuantity(amount) : String(amount);
}

function describeFactor(name: string, value: unknown) {
  return { setting: `${RESOURCES[name] ?? name} limit`, text: `${value} × request` };
}

function describeQueue(name: string, value: unknown) {
  if (name === "weight") return { setting: "Weight", text: String(value) };
  return { setting: "Waiting runs", text: `at most ${Number(value).toLocaleString("en")}` };
}

function listQuota(quota: Quota): SummaryLine[] {
  return QUOTAS.filter(([name]) => quota[name] !== undefined).map(([name, setting]) => ({
    setting,
    text: `at most ${showQuota(name, quota[name]!)}${quota.used ? `, ${showQuota(name, quota.used[name])} in use` : ""}`,
    scope: quota.scope ?? null,
  }));
}

function listDefaults(requirements: Tree, scope: string): SummaryLine[] {
  return listLeaves(requirements).map(({ path, value }) => ({
    setting: path === "profile" ? "Compute resource" : labelOf(path),
    text: isByteAmount(path) ? showSetting(path, value) : showDefault(value),
    scope,
  }));
}

/** Variables, labels, tolerations and volumes are lists of objects with a name or key. */
function showDefault(value: unknown): string {
  if (!Array.isArray(value)) return showValue(value);
  return value
    .map((item) => {
      if (typeof item !== "object" || item === null) return showValue(item);
      const { key, name, value: itemValue } = item as Tree;
      return itemValue === undefined ? String(name ?? key ?? "") : `${name ?? key}=${itemValue}`;
    })
    .join(", ");
}

/** Formats seconds: 93600 is "1d2h". */
function showDuration(value: unknown): string {
  if (typeof value !== "number") return showValue(value);
  let rest = value;
  const parts = DURATION_UNITS.map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count > 0 ? `${count}${unit}` : "";
  });
  return parts.join("");
}

function showOptions(values: unknown[]): string {
  const texts = values.map(showValue);
  if (texts.length === 0) return "no value allowed";
  return texts.length > 1 ? `only ${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}` : `only ${texts[0]}`;
}
