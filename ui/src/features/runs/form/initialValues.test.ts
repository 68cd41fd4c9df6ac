import { QueryClient } from "@tanstack/react-query";
import { describe, expect, it } from "vitest";
import { type Request, RUN } from "../../../api/runs";
import { answerLists, callHook, stubStorage, TestLocation } from "../../../testing/hooks";
import { useInitialValues } from "./initialValues";

const SCOPES = [
  { scope: "platform", kind: "platform", name: "platform", parent: null },
  { scope: "project/forest", kind: "project", name: "forest", parent: "platform" },
  { scope: "project/meadow", kind: "project", name: "meadow", parent: "platform" },
  { scope: "project/hidden", kind: "project", name: "hidden", parent: "platform" },
];
const ROLES = [
  { role: "member", scope: "project/meadow" },
  { role: "admin", scope: "project/forest" },
  { role: "viewer", scope: "project/hidden" },
];

interface Earlier {
  id: string;
  scope: string;
  request: Request;
}

function answer({ roles = ROLES, earlier }: { roles?: object[]; earlier?: Earlier } = {}): QueryClient {
  const queries = answerLists({ "/api/v1/scopes": SCOPES, "/api/v1/compute-resources": [] });
  queries.setQueryData(["/api/v1/me"], { user: "ada", roles });
  if (earlier) {
    const { id, scope, request } = earlier;
    queries.setQueryData([RUN, id], { id, scope, function: "train", action: "job" });
    queries.setQueryData([RUN, id, "request"], request);
    queries.setQueryData([RUN, id, "explain"], { settings: [] });
  }
  return queries;
}

function open(address: string, queries = answer(), last?: string) {
  stubStorage(last ? { "fairlead.project": last } : {});
  return callHook(useInitialValues, { queries, location: new TestLocation(address) });
}

describe("the project", () => {
  it.each([
    ["the first by name", "/new/run", undefined, "forest"],
    ["the last used one", "/new/run", "meadow", "meadow"],
    ["not the last used one if it was removed", "/new/run", "removed", "forest"],
    ["the one in the URL", "/new/run?project=meadow", "forest", "meadow"],
  ])("is %s", (_, address, last, project) => {
    const { initialValues, projects } = open(address, answer(), last);
    expect(projects).toEqual(["forest", "meadow"]);
    expect(initialValues).toMatchObject({ project, request: {} });
    expect(initialValues?.note).toBeUndefined();
  });

  it("is a different one, with a note, if the user cannot submit runs to the one in the URL", () => {
    const { initialValues } = open("/new/run?project=hidden");
    expect(initialValues?.project).toBe("forest");
    expect(initialValues?.note).toMatch(/hidden.*forest/);
  });

  it("is empty for users who cannot submit runs", () => {
    expect(open("/new/run", answer({ roles: [ROLES[2]!] })).initialValues?.project).toBe("");
  });
});

describe("the request", () => {
  it.each([
    ["/new/run?function=train", { function: "train" }],
    ["/new/run?template=tuning&function=train", { function: "train", template: "tuning" }],
    ["/new/run?mem=2Gi", {}],
  ])("of %s is %j", (address, request) => {
    expect(open(address).initialValues?.request).toEqual(request);
  });

  const earlier = { id: "r1", scope: "project/meadow", request: { function: "train", deadline: 60 } };

  it("is that of an earlier run, in the same project", () => {
    expect(open("/new/run?from=r1", answer({ earlier }), "forest").initialValues).toEqual({
      project: "meadow",
      request: earlier.request,
      from: { id: "r1", function: "train" },
    });
  });

  it("has the memory and the function from the URL", () => {
    expect(
      open("/new/run?from=r1&mem=2Gi&function=other", answer({ earlier })).initialValues?.request,
    ).toEqual({
      function: "other",
      deadline: 60,
      resources: { mem: { requests: "2Gi", limits: "2Gi" } },
    });
  });

  it("uses another compute resource if that of the earlier run sets the memory", () => {
    const queries = answer({ earlier: { ...earlier, request: { function: "train", profile: "small" } } });
    const source = { layer: "compute_resource", name: "small" };
    queries.setQueryData([RUN, "r1", "explain"], { settings: [{ path: "resources.mem.requests", source }] });
    const computeResource = (
      name: string,
      scope: string,
      limits: string,
      workload_types: string[] | null = null,
    ) => {
      const requirements = { resources: { mem: { limits } } };
      return { name, scope, archived: false, workload_types, requirements };
    };
    const computeResources = [
      computeResource("small", "platform", "1Gi"),
      computeResource("elsewhere", "project/forest", "2Gi"),
      computeResource("inference", "platform", "2Gi", ["inference"]),
      computeResource("large", "project/meadow", "8Gi", ["training"]),
    ];
    queries.setQueryData(["/api/v1/compute-resources", {}, "all", {}], computeResources);
    const { initialValues } = open("/new/run?from=r1&mem=2Gi", queries);
    expect(initialValues?.request).toEqual({ function: "train", profile: "large" });
    expect(initialValues?.note).toMatch(/small.*large/);
  });

  it("waits for the earlier run, and also for its plan if more memory is requested", () => {
    expect(open("/new/run?from=r1")).toMatchObject({ initialValues: null, error: null });
    const queries = answer({ earlier });
    queries.removeQueries({ queryKey: [RUN, "r1", "explain"] });
    expect(open("/new/run?from=r1", queries).initialValues).not.toBeNull();
    expect(open("/new/run?from=r1&mem=2Gi", queries).initialValues).toBeNull();
  });
});

it("waits until the projects are loaded", () => {
  expect(open("/new/run", new QueryClient()).initialValues).toBeNull();
});
