import "../testing/browser";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { jsonResponse, makeRun } from "../testing/runs";
import { comparePlans, type Plan } from "./plans";

const REQUEST = { function: "train" };
const SOURCE = { layer: "user", name: null, scope: null, revision: 1 } as const;

function makePlan(cpu: string, token: string | null, command = ["train"]): Plan {
  const spec = { containers: [{ name: "main", command, resources: { requests: { cpu } } }] };
  return {
    settings: [{ path: "resources.cpu.requests", value: cpu, source: SOURCE, overridden: [] }],
    warnings: [],
    violations: [],
    manifests: [{ kind: "Job", metadata: { name: "train" }, spec }],
    fit: { verdict: "now", nodes: [], reasons: [], suggestions: [], counts: {} },
    token,
  };
}

describe("comparePlans", () => {
  it("ignores tokens, sources and the fit", () => {
    const after = makePlan("4", "b");
    after.fit = { ...after.fit, verdict: "never" };
    after.settings[0]!.source = { ...SOURCE, revision: 2 };
    after.warnings = [{ path: "resources", rule: "never_fits", message: "no node has 4 cores" }];
    expect(comparePlans(makePlan("4", "a"), after)).toEqual([]);
  });

  it("lists a changed setting once, although it is also in a manifest", () => {
    expect(comparePlans(makePlan("4", "a"), makePlan("8", "b"))).toEqual([
      { path: "resources.cpu.requests", before: "4", after: "8" },
    ]);
  });

  it("lists a changed command, which is only in a manifest", () => {
    expect(comparePlans(makePlan("4", "a"), makePlan("4", "b", ["steal"]))).toEqual([
      { path: "Job.spec.containers.main.command", before: ["train"], after: ["steal"] },
    ]);
  });

  it("lists new warnings, and objects of the same kind by name", () => {
    const before = makePlan("4", "a");
    const after = makePlan("4", "b");
    after.warnings = [{ path: "envs.A", rule: "overridden", message: "overridden by policy" }];
    after.manifests = [...after.manifests, { kind: "Job", metadata: { name: "other" } }];
    expect(comparePlans(before, after).map(({ path }) => path)).toEqual([
      "Job/other.kind",
      "Job/other.metadata.name",
      "warning overridden envs.A",
    ]);
  });
});

describe("submitRun", () => {
  const sent: [string, unknown, string | null][] = [];
  const run = makeRun({ id: "r1" });

  beforeEach(() => {
    vi.resetModules();
    sent.length = 0;
  });
  afterEach(() => vi.unstubAllGlobals());

  /** Answers requests in order: with a plan, a run or a problem. An error means that there is no response. */
  function answer(...answers: unknown[]) {
    vi.stubGlobal("fetch", async (request: Request) => {
      const name = request.url.endsWith("/preview") ? "preview" : "submit";
      const { plan_token: token } = await request.json();
      sent.push([name, token, request.headers.get("Idempotency-Key")]);
      const next = answers.shift();
      if (next instanceof Error) throw next;
      return jsonResponse(next, (next as { status?: number }).status ?? 200);
    });
  }

  const outdated = { status: 409, code: "preview_outdated", detail: "expired" };
  const invalid = {
    ...{ status: 422, code: "rejected", detail: "1 error" },
    violations: [{ path: "plan_token", rule: "plan_token", message: "is not valid" }],
  };
  const submit = async (plan?: Plan) => {
    const { submitRun } = await import("./submissions");
    return submitRun({ project: "forest", request: REQUEST, plan });
  };
  const calls = () => sent.map(([name, token]) => `${name} ${token ?? "without token"}`);

  it("sends the token of the preview", async () => {
    answer(run);
    expect(await submit(makePlan("4", "a"))).toEqual({ run });
    expect(calls()).toEqual(["submit a"]);
  });

  it("sends no token if there is no preview of the request", async () => {
    answer(run);
    expect(await submit()).toEqual({ run });
    expect(calls()).toEqual(["submit without token"]);
  });

  it.each([
    ["outdated", outdated],
    ["invalid", invalid],
  ])("previews again if the token is %s, and submits an unchanged plan", async (_, problem) => {
    answer(problem, makePlan("4", "b"), run);
    expect(await submit(makePlan("4", "a"))).toEqual({ run });
    expect(calls()).toEqual(["submit a", "preview without token", "submit b"]);
  });

  it("returns the differences of a changed plan, and submits nothing", async () => {
    const latest = makePlan("8", "b");
    answer(outdated, latest);
    const differences = [{ path: "resources.cpu.requests", before: "4", after: "8" }];
    expect(await submit(makePlan("4", "a"))).toEqual({ plan: latest, differences });
    expect(calls()).toEqual(["submit a", "preview without token"]);
  });

  it("throws the violations of a plan that is no longer valid", async () => {
    const violations = [{ path: "profile", rule: "unknown_profile", message: "does not exist" }];
    answer(outdated, { ...makePlan("4", null), violations });
    await expect(submit(makePlan("4", "a"))).rejects.toMatchObject({ problem: { violations } });
    expect(calls()).toEqual(["submit a", "preview without token"]);
  });

  it("throws other errors without another preview", async () => {
    answer({ status: 409, code: "conflict", detail: "this preview has already been submitted" });
    await expect(submit(makePlan("4", "a"))).rejects.toThrow("already been submitted");
    expect(calls()).toEqual(["submit a"]);
  });

  it("repeats a submission without a response as the same request, even after a new preview", async () => {
    answer(new TypeError("connection lost"), run, run);
    await expect(submit(makePlan("4", "a"))).rejects.toThrow("not responding");
    await submit(makePlan("4", "b"));
    await submit(makePlan("4", "c"));
    expect(calls()).toEqual(["submit a", "submit a", "submit c"]);
    const [first, second, third] = sent.map(([, , key]) => key);
    expect(second).toBe(first);
    expect(third).not.toBe(first);
  });
});
