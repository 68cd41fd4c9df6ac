import type { AssetKind } from "./requests";

export const COMPUTE_RESOURCES: AssetKind = {
  apiPath: "/api/v1/compute-resources",
  path: "/compute-resources",
  newPath: "/new/compute-resource",
  noun: "compute resource",
  nouns: "compute resources",
};

export const TEMPLATES: AssetKind = {
  apiPath: "/api/v1/templates",
  path: "/templates",
  newPath: "/new/template",
  noun: "template",
  nouns: "templates",
};
