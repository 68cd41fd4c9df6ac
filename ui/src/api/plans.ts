/** Plans: what was decided for a request, as the server tells it everywhere. */
import type { Schemas } from "./client";
import type { Finding } from "./problems";

export interface Source {
  layer: "platform" | "policy" | "template" | "user" | "compute_resource" | "imposed";
  name: string | null;
  scope: string | null;
  revision: number | null;
}

export interface Said {
  value: unknown;
  source: Source;
}

/** One value: who set it, whom it overrode, the strongest first, and with whose it was combined. */
export interface Setting extends Said {
  path: string;
  overrode: Said[];
  combined?: Said[];
  why?: string | null;
}

export type Fit = Schemas["Fit"];
export type Suggestion = Schemas["Suggestion"];
export type Verdict = "now" | "later" | "never" | "unknown";
export type Manifest = { kind: string; metadata: { name: string } } & Record<string, unknown>;
export type Warning = Finding & { asked?: Said };

export interface Plan {
  settings: Setting[];
  warnings: Warning[];
  violations: Finding[];
  manifests: Manifest[];
  fit: Fit;
  token?: string | null;
}
