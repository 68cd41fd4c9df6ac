/** Plans: the resolved settings for a run request. */
import { listDifferences } from "../format/values";
import type { Schemas } from "./client";
import type { Finding } from "./problems";

export interface Source {
  layer: "platform" | "policy" | "template" | "user" | "compute_resource" | "enforced";
  name: string | null;
  scope: string | null;
  revision: number | null;
}

export interface SourcedValue {
  value: unknown;
  source: Source;
}

/** A resolved value with its source, the values it overrides (strongest first) and those it was combined with. */
export interface Setting extends SourcedValue {
  path: string;
  overridden: SourcedValue[];
  combined?: SourcedValue[];
  reason?: string | null;
}

export type Fit = Schemas["Fit"];
export type Suggestion = Schemas["Suggestion"];
export type Verdict = "now" | "later" | "never" | "unknown";
export type Manifest = { kind: string; metadata: { name: string } } & Record<string, unknown>;
export type PlanWarning = Finding & { requested?: SourcedValue };

export interface Plan {
  settings: Setting[];
  warnings: PlanWarning[];
  violations: Finding[];
  manifests: Manifest[];
  fit: Fit;
  token?: string | null;
}

export interface Difference {
  path: string;
  before: unknown;
  after: unknown;
}

/** Warnings about the current nodes, which are not part of the plan. */
const IGNORED_WARNING = "never_fits";

/** The differences between two plans: settings, then other values in manifests, and warnings. Ignores the fit. */
export function comparePlans(before: Plan, after: Plan): Difference[] {
  const settings = listDifferences(settingsOf(before), settingsOf(after));
  // Most changes of manifests follow from a changed setting, and would repeat it.
  const known = new Set(settings.map(valuesOf));
  const others = listDifferences(othersOf(before), othersOf(after));
  return [...settings, ...others.filter((difference) => !known.has(valuesOf(difference)))];
}

function settingsOf(plan: Plan) {
  return Object.fromEntries(plan.settings.map(({ path, value }) => [path, value]));
}

/** Manifests, which also contain the code and command of the function, and warnings. */
function othersOf(plan: Plan) {
  const values: Record<string, unknown> = {};
  for (const manifest of plan.manifests) {
    const { kind, metadata } = manifest;
    values[kind in values ? `${kind}/${metadata.name}` : kind] = manifest;
  }
  for (const { rule, path, message } of plan.warnings) {
    if (rule !== IGNORED_WARNING) values[`warning ${rule} ${path}`] = message;
  }
  return values;
}

function valuesOf({ before, after }: Difference): string {
  return JSON.stringify([String(before), String(after)]);
}
