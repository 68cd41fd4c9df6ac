/** Plans: the resolved settings for a run request. */
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
