import { describe, expect, it } from "vitest";
import { answerLists, callHook } from "../../../testing/hooks";
import { useComputeResourcesOf, useScopesAbove, useSecretNames, useTemplatesOf } from "./requests";

const SCOPES = [
  { scope: "platform", kind: "platform", name: "platform", parent: null },
  { scope: "cluster/local", kind: "cluster", name: "local", parent: "platform" },
  { scope: "department/vision", kind: "department", name: "vision", parent: "cluster/local" },
  { scope: "project/forest", kind: "project", name: "forest", parent: "department/vision" },
  { scope: "project/meadow", kind: "project", name: "meadow", parent: "cluster/local" },
];

function item(name: string, scope: string, fields: object = {}) {
  return { name, scope, archived: false, workload_types: null, ...fields };
}

function namesOf(items: { name: string }[] | undefined): string[] | undefined {
  return items?.map(({ name }) => name);
}

describe("compute resources", () => {
  const queries = answerLists({
    "/api/v1/scopes": SCOPES,
    "/api/v1/compute-resources": [
      item("everywhere", "platform"),
      item("of-cluster", "cluster/local"),
      item("of-department", "department/vision"),
      item("of-project", "project/forest"),
      item("archived", "platform", { archived: true }),
      item("for-training", "platform", { workload_types: ["training"] }),
      item("for-inference", "platform", { workload_types: ["inference", "workspace"] }),
    ],
  });

  it.each([
    ["forest", "job", ["everywhere", "of-cluster", "of-department", "of-project", "for-training"]],
    ["forest", "serve", ["everywhere", "of-cluster", "of-department", "of-project", "for-inference"]],
    ["meadow", "workspace", ["everywhere", "of-cluster", "for-inference"]],
    ["unknown", "job", ["everywhere", "for-training"]],
  ])("of the project %s for the action %s are %j", (project, action, names) => {
    expect(namesOf(callHook(() => useComputeResourcesOf(project, action), { queries }))).toEqual(names);
  });

  it("are undefined while they are loading", () => {
    expect(callHook(() => useComputeResourcesOf("forest", "job"))).toBeUndefined();
  });
});

it("returns the templates of a project and its parent scopes", () => {
  const templates = [
    item("one", "department/vision"),
    item("other", "project/meadow"),
    item("all", "platform"),
  ];
  const queries = answerLists({ "/api/v1/scopes": SCOPES, "/api/v1/templates": templates });
  expect(namesOf(callHook(() => useTemplatesOf("forest"), { queries }))).toEqual(["one", "all"]);
});

it.each([
  [[{ role: "editor", scope: "department/vision" }], ["project/forest", "department/vision"]],
  [[{ role: "admin", scope: "project/forest" }], ["project/forest"]],
  [
    [{ role: "admin", scope: "platform" }],
    ["project/forest", "department/vision", "cluster/local", "platform"],
  ],
  [[{ role: "member", scope: "project/forest" }], []],
])("returns the project and parent scopes that a user with %j can edit", (roles, scopes) => {
  const queries = answerLists({ "/api/v1/scopes": SCOPES });
  queries.setQueryData(["/api/v1/me"], { user: "ada", roles });
  expect(callHook(() => useScopesAbove("forest"), { queries })).toEqual(scopes);
});

it("returns the secret names of one project", () => {
  const queries = answerLists({});
  const key = ["/api/v1/projects/{project}/secrets", { project: "forest" }, "all", {}];
  queries.setQueryData(key, [{ name: "HF_TOKEN" }]);
  expect(callHook(() => useSecretNames("forest"), { queries })).toEqual(["HF_TOKEN"]);
  expect(callHook(() => useSecretNames("meadow"), { queries })).toEqual([]);
});
