import { describe, expect, it } from "vitest";
import type { Request } from "../../../api/runs";
import { merge, nameOf, type RunDraft, readRun, tryWritingRun, updateDraft } from "./drafts";

/** Changes a draft and converts it to a request. */
function writeWith(change: Partial<RunDraft>, request?: Request): Request | null {
  return tryWritingRun({ ...readRun(request), ...change }).request;
}

describe("round trips", () => {
  it.each<[string, Request]>([
    ["nothing", {}],
    ["a saved function", { function: "train" }],
    [
      "a function of an earlier run",
      { function: { name: "sh", command: ["bash", "-c", "echo $0", "it's"] } },
    ],
    ["another action", { function: "serve", action: "serve", replicas: 2 }],
    ["the default action, if it was set", { function: "train", action: "job" }],
    ["a template", { template: "tuning" }],
    ["inputs", { inputs: { epochs: 4, note: "it's $HOME", deep: { a: [null, "1", 1] } } }],
    ["arguments as a list", { args: ["a b", "c"] }],
    ["arguments as text", { args: "'a b' c" }],
    ["durations in seconds", { deadline: 5400, idle_timeout: 90 }],
    ["durations as text", { deadline: "90m", idle_timeout: "1d12h" }],
    ["retries and growth", { retries: 0, on_oom: { grow: 1.5, max: "8Gi" } }],
    ["a priority", { priority: 10 }],
    ["a schedule", { schedule: { cron: "0 3 * * *", timezone: "Europe/Rome", missed: "skip" } }],
    ["strict", { strict: true }],
    ["not strict, if it was set", { strict: false }],
    ["requirements", { profile: "small", resources: { mem: { requests: "64Mi" } }, envs: { A: 1 } }],
    ["values that no field shows", { unheard_of: [1], on_oom: { grow: 2, odd: 1 } }],
  ])("keep %s", (_, request) => {
    expect(tryWritingRun(readRun(request))).toEqual({ request, errors: [] });
  });

  it("do not keep the plan token, which belongs to one preview", () => {
    expect(tryWritingRun(readRun({ function: "train", plan_token: "abc" })).request).toEqual({
      function: "train",
    });
  });

  it("keep values that were not changed", () => {
    const request = { function: { name: "sh", command: ["ls"] }, args: ["a b"], deadline: 5400, odd: 1 };
    expect(writeWith({ deadline: "2h", priority: " 5 " }, request)).toEqual({
      ...request,
      deadline: "2h",
      priority: "5",
    });
  });

  it("remove values that were cleared", () => {
    const emptied = {
      deadline: " ",
      cron: "",
      timezone: "",
      growth: "",
      inputs: "",
      strict: false,
      template: "",
    };
    const request = {
      function: "train",
      deadline: 60,
      schedule: { cron: "0 3 * * *", timezone: "UTC" },
      on_oom: { grow: 2 },
      inputs: { a: 1 },
      strict: true,
      template: "tuning",
    };
    expect(writeWith(emptied, request)).toEqual({ function: "train" });
  });
});

describe("readRun", () => {
  it.each([
    [5400, "90m"],
    [86_400, "1d"],
    [7200, "2h"],
    [61, "61s"],
    ["90m", "90m"],
    ["soon", "soon"],
    [0, "0"],
    [1.5, "1.5"],
    [undefined, ""],
    [null, ""],
  ])("shows the deadline %j as %j", (deadline, text) => {
    expect(readRun({ deadline }).deadline).toBe(text);
  });

  it.each([
    [["a b", "c"], "'a b' c"],
    [[1, true], "1 true"],
    ["as it was", "as it was"],
    [undefined, ""],
  ])("shows the arguments %j as %j", (args, text) => {
    expect(readRun({ args }).args).toBe(text);
  });

  it("shows inputs as YAML", () => {
    expect(readRun({ inputs: { epochs: 4, names: ["a"] } }).inputs).toBe("epochs: 4\nnames:\n  - a\n");
    expect(readRun({ inputs: {} }).inputs).toBe("");
  });

  it("leaves limits to policies if the request has none", () => {
    expect(readRun({}).requirements.mem.mode).toBe("policy");
  });
});

describe("tryWritingRun", () => {
  it("writes only what was typed", () => {
    const draft = {
      function: "train",
      inputs: "epochs: 5",
      args: " --fast ",
      replicas: " 2",
      cron: "0 3 * * *",
    };
    expect(writeWith(draft)).toEqual({
      function: "train",
      inputs: { epochs: 5 },
      args: "--fast",
      replicas: "2",
      schedule: { cron: "0 3 * * *" },
    });
    expect(writeWith({ growth: " 1.5 ", mostMemory: " 8Gi " })).toEqual({
      on_oom: { grow: "1.5", max: "8Gi" },
    });
    expect(writeWith({ action: "serve" })).toEqual({ action: "serve" });
    expect(writeWith({ action: "job" })).toEqual({});
  });

  it("reports each error at its field, and writes nothing", () => {
    const draft = { ...readRun({ function: "train" }), inputs: "- 1" };
    draft.requirements.affinity = "{";
    const { request, errors } = tryWritingRun(draft);
    expect(request).toBeNull();
    expect(errors.map(({ path, rule }) => [path, rule])).toEqual([
      ["affinity", "yaml"],
      ["inputs", "yaml"],
    ]);
  });
});

describe("merge", () => {
  // The examples from RFC 7386 whose target is an object.
  it.each([
    [{ a: "b" }, { a: "c" }, { a: "c" }],
    [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
    [{ a: "b" }, { a: null }, {}],
    [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
    [{ a: ["b"] }, { a: "c" }, { a: "c" }],
    [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
    [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
    [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
    [{ a: "foo" }, { a: { b: { c: null } } }, { a: { b: {} } }],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  ])("of %j and %j is %j", (request, change, merged) => {
    const before = structuredClone(request);
    expect(merge(request, change)).toEqual(merged);
    expect(request).toEqual(before);
  });
});

describe("updateDraft", () => {
  const typed = { inputs: "epochs: 2  # quick", args: "'a'", deadline: "60m", idleTimeout: "60s" };
  const before: Request = {
    function: "train",
    inputs: { epochs: 2 },
    args: "'a'",
    deadline: "60m",
    idle_timeout: "60s",
    affinity: { a: 1 },
    resources: { cpu: { requests: "4000" } },
  };

  it("keeps text as it was typed if its value stays the same", () => {
    const draft = { ...readRun(before), ...typed };
    draft.requirements.affinity = "a: 1  # why";
    const next = updateDraft(draft, before, merge(before, { resources: { cpu: { requests: "2" } } }));
    expect(next).toMatchObject(typed);
    expect(next.requirements.affinity).toBe("a: 1  # why");
    expect(next.requirements.cpu.request).toEqual({ number: "2", unit: "" });
  });

  it("shows values that were changed", () => {
    const change = {
      inputs: { epochs: 9 },
      args: ["b"],
      deadline: 7200,
      idle_timeout: null,
      affinity: { a: 2 },
    };
    const next = updateDraft({ ...readRun(before), ...typed }, before, merge(before, change));
    expect(next).toMatchObject({ inputs: "epochs: 9\n", args: "b", deadline: "2h", idleTimeout: "" });
    expect(JSON.parse(next.requirements.affinity)).toEqual({ a: 2 });
  });
});

it.each([
  ["train", "train"],
  [{ name: "sh", command: ["ls"] }, "sh"],
  [{}, ""],
  [undefined, ""],
])("finds the name of the function %j", (requested, name) => {
  expect(nameOf(readRun({ function: requested }))).toBe(name);
});
