/** What a policy says, or what several say together, as lines to read: what, how much, and who says so. */
import type { Schemas } from "../../api/client";
import { listLeaves, showValue } from "../../format/values";
import type { Tree } from "../../forms/trees";
import { labelOf } from "./paths";
import type { EffectivePolicy } from "./requests";
import { describeSwitch, SWITCHES } from "./switches";

type Stated = Schemas["Stated"];
type StatedRule = Schemas["StatedRule"];
type Quota = Partial<Schemas["StatedQuota"]>;

export interface Statement {
  /** What it is about, where the sentence does not begin with it. */
  about?: string;
  text: string;
  /** The scope that says so; null: nobody does, it is shipped so. */
  from: string | null;
}

export interface Chapter {
  title: string;
  note?: string;
  statements: Statement[];
}

const RESOURCES: Record<string, string> = { cpu: "CPU compute", mem: "CPU memory", disk: "Disk" };
const QUOTAS: [keyof Schemas["Used"], string][] = [
  ["gpu", "GPU devices"],
  ["cpu", "CPU compute"],
  ["mem", "CPU memory"],
  ["runs", "Runs"],
];
/** Paths whose values the server sends in seconds. */
const DURATIONS = ["deadline", "idle_timeout"];
const SECONDS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** All that holds at a scope. */
export function listEffective(policy: EffectivePolicy): Chapter[] {
  const rules = Object.entries(policy.rules).flatMap(([path, rule]) => listRule(path, rule));
  const switches = SWITCHES.map(({ name }) => ({ name, ...policy.switches[name]! }));
  const chapters: Chapter[] = [
    { title: "Rules", note: rules.length > 0 ? undefined : "None", statements: rules },
    {
      title: "Switches",
      statements: switches.map(({ name, value, source }) => ({
        text: describeSwitch(name, value),
        from: source.scope,
      })),
    },
    {
      title: "Limit factors",
      note: "Where a request has no limit of its own",
      statements: Object.entries(policy.limit_factor).map(([name, { value, source }]) => ({
        ...describeFactor(name, value),
        from: source.scope,
      })),
    },
    {
      title: "Quota",
      note: "What all runs at and below a scope hold together",
      statements: policy.quotas.flatMap((quota) => listQuota(quota)),
    },
    {
      title: "Defaults",
      note: policy.defaults.length > 1 ? "The nearest scope wins" : undefined,
      statements: policy.defaults
        .toReversed()
        .flatMap(({ scope, requirements }) => listDefaults(requirements, scope)),
    },
  ];
  return chapters.filter((chapter) => chapter.title === "Rules" || chapter.statements.length > 0);
}

/** What one policy says by itself. */
export function listSaid(content: Tree, scope: string): Chapter[] {
  const stated = (value: unknown): Stated => ({
    value,
    source: { layer: "policy", scope, name: null, revision: null },
  });
  const rules = Object.entries((content.rules ?? {}) as Tree).flatMap(([path, rule]) =>
    listRule(path, {
      ...(rule.min !== undefined && { min: [stated(rule.min)] }),
      ...(rule.max !== undefined && { max: [stated(rule.max)] }),
      ...(rule.options && { options: [stated(rule.options)] }),
      ...(rule.required && { required: stated(true) }),
      ...(rule.locked && { locked: stated(true) }),
    }),
  );
  const switches = Object.entries((content.switches ?? {}) as Tree);
  const factors = Object.entries((content.limit_factor ?? {}) as Tree);
  const chapters = [
    { title: "Rules", statements: rules },
    {
      title: "Switches",
      statements: switches.map(([name, value]) => ({ text: describeSwitch(name, value), from: scope })),
    },
    {
      title: "Limit factors",
      statements: factors.map(([name, value]) => ({ ...describeFactor(name, value), from: scope })),
    },
    { title: "Quota", statements: listQuota({ ...content.quota, scope }) },
    { title: "Defaults", statements: listDefaults(content.defaults ?? {}, scope) },
  ];
  return chapters.filter((chapter) => chapter.statements.length > 0);
}

function listRule(path: string, rule: StatedRule): Statement[] {
  const about = labelOf(path);
  const tell = (words: string, said: Stated) => ({ about, text: words, from: said.source.scope });
  const show = (value: unknown) => (DURATIONS.includes(path) ? showDuration(value) : showValue(value));
  return [
    ...(rule.min ?? []).map((said) => tell(`at least ${show(said.value)}`, said)),
    ...(rule.max ?? []).map((said) => tell(`at most ${show(said.value)}`, said)),
    ...(rule.options ?? []).map((said) => tell(`only ${listWords(said.value as unknown[])}`, said)),
    ...(rule.required ? [tell("must be said", rule.required)] : []),
    ...(rule.locked ? [tell("not for templates and users to say", rule.locked)] : []),
  ];
}

function describeFactor(name: string, value: unknown) {
  return { about: `${RESOURCES[name] ?? name} limit`, text: `${value} × the request` };
}

function listQuota(quota: Quota): Statement[] {
  return QUOTAS.filter(([name]) => quota[name] !== undefined).map(([name, about]) => ({
    about,
    text: `at most ${quota[name]}${quota.used ? `, ${quota.used[name]} in use` : ""}`,
    from: quota.scope ?? null,
  }));
}

function listDefaults(requirements: Tree, scope: string): Statement[] {
  return listLeaves(requirements).map(({ path, value }) => ({
    about: path === "profile" ? "Compute resource" : labelOf(path),
    text: showDefault(value),
    from: scope,
  }));
}

/** Pairs and volumes come as lists of things with a name or key. */
function showDefault(value: unknown): string {
  if (!Array.isArray(value)) return showValue(value);
  return value
    .map((item) => {
      if (typeof item !== "object" || item === null) return showValue(item);
      const { key, name, value: held } = item as Tree;
      return held === undefined ? String(name ?? key ?? "") : `${name ?? key}=${held}`;
    })
    .join(", ");
}

/** Seconds as people write them: 93600 is "1d2h". */
function showDuration(value: unknown): string {
  if (typeof value !== "number") return showValue(value);
  let rest = value;
  const parts = SECONDS.map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count > 0 ? `${count}${unit}` : "";
  });
  return parts.join("");
}

function listWords(values: unknown[]): string {
  const words = values.map(showValue);
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} or ${words.at(-1)}` : (words[0] ?? "nothing");
}
