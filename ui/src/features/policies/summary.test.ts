import { describe, expect, it } from "vitest";
import type { Tree } from "../../forms/trees";
import type { EffectivePolicy } from "./requests";
import { type SummarySection, summarizeEffective, summarizePolicy } from "./summary";
import { SWITCHES } from "./switches";

function withSource(value: unknown, scope: string | null = "platform") {
  return { value, source: { layer: "policy", scope, name: null, revision: null } };
}

function makeEffective(parts: Tree): EffectivePolicy {
  const switches = Object.fromEntries(SWITCHES.map(({ name }) => [name, withSource(null, null)]));
  const empty = { rules: {}, limit_factor: {}, quotas: [], queue: {}, defaults: [] };
  return { scope: "project/forest", switches, ...empty, ...parts } as unknown as EffectivePolicy;
}

function linesOf(sections: SummarySection[], title: string): string[] | undefined {
  const section = sections.find((other) => other.title === title);
  return section?.lines.map(({ setting, text, scope }) =>
    [setting, text, `(${scope})`].filter(Boolean).join(" "),
  );
}

describe("rules", () => {
  it.each([
    ["resources.gpu", { max: [withSource(2)] }, ["GPUs at most 2 (platform)"]],
    [
      "resources.mem",
      { min: [withSource("1Gi")], max: [withSource("8Gi"), withSource("4Gi", "project/forest")] },
      [
        "CPU memory at least 1 GiB (platform)",
        "CPU memory at most 8 GiB (platform)",
        "CPU memory at most 4 GiB (project/forest)",
      ],
    ],
    ["action", { options: [withSource(["job"])] }, ["Action only job (platform)"]],
    [
      "action",
      { options: [withSource(["job", "serve", "workspace"])] },
      ["Action only job, serve or workspace (platform)"],
    ],
    ["action", { options: [withSource([])] }, ["Action no value allowed (platform)"]],
    [
      "volumes.*.read_only",
      { options: [withSource([true])] },
      ["Read-only flag of every volume only yes (platform)"],
    ],
    ["deadline", { max: [withSource(93_600)] }, ["Deadline at most 1d2h (platform)"]],
    ["deadline", { max: [withSource(90)] }, ["Deadline at most 1m30s (platform)"]],
    ["deadline", { max: [withSource("2h")] }, ["Deadline at most 2h (platform)"]],
  ])("at %s with %j are summarized", (path, rule, lines) => {
    expect(linesOf(summarizeEffective(makeEffective({ rules: { [path]: rule } })), "Rules")).toEqual(lines);
  });

  it("show a limit on the idle timeout as a duration", () => {
    const policy = makeEffective({ rules: { idle_timeout: { max: [withSource(28_800)] } } });
    expect(linesOf(summarizeEffective(policy), "Rules")).toEqual([expect.stringContaining("at most 8h")]);
  });

  it("have one line each for required and locked", () => {
    const policy = makeEffective({
      rules: { envs: { required: withSource(true), locked: withSource(true, "project/a") } },
    });
    expect(linesOf(summarizeEffective(policy), "Rules")).toEqual([
      expect.stringMatching(/^Environment variables .* \(platform\)$/),
      expect.stringMatching(/^Environment variables .* \(project\/a\)$/),
    ]);
  });
});

describe("summarizeEffective", () => {
  it("has rules and switches even if no policy exists", () => {
    const sections = summarizeEffective(makeEffective({}));
    expect(sections.map(({ title }) => title)).toEqual(["Rules", "Switches"]);
    expect(sections[0]).toMatchObject({ note: "None", lines: [] });
    expect(sections[1]!.lines).toHaveLength(SWITCHES.length);
  });

  it("lists factors, quotas with their usage, and defaults with the nearest scope first", () => {
    const sections = summarizeEffective(
      makeEffective({
        limit_factor: { mem: withSource(1.5) },
        quotas: [
          { scope: "department/vision", gpu: 8, runs: 50, used: { gpu: 2, cpu: "1", mem: "1Gi", runs: 3 } },
        ],
        defaults: [
          { scope: "platform", requirements: { resources: { cpu: { requests: "1" } } } },
          { scope: "project/forest", requirements: { profile: "small", secrets: ["A", "B"] } },
        ],
      }),
    );
    expect(linesOf(sections, "Limit factors")).toEqual(["CPU memory limit 1.5 × request (platform)"]);
    expect(linesOf(sections, "Quota")).toEqual([
      "GPU devices at most 8, 2 in use (department/vision)",
      "Runs at most 50, 3 in use (department/vision)",
    ]);
    expect(linesOf(sections, "Defaults")).toEqual([
      "Compute resource small (project/forest)",
      "Secrets A, B (project/forest)",
      "CPU compute request 1 (platform)",
    ]);
  });
});

describe("the queue", () => {
  it("has lines with their sources in the effective policy", () => {
    const queue = { max_waiting_runs: withSource(1000), weight: withSource(0.5, "department/vision") };
    const sections = summarizeEffective(makeEffective({ queue }));
    expect(linesOf(sections, "Queue")).toEqual([
      "Waiting runs at most 1,000 (platform)",
      "Weight 0.5 (department/vision)",
    ]);
  });

  it("has lines in the summary of one policy", () => {
    const sections = summarizePolicy({ queue: { weight: 2, max_waiting_runs: 20 } }, "platform");
    expect(linesOf(sections, "Queue")).toEqual(["Weight 2 (platform)", "Waiting runs at most 20 (platform)"]);
  });
});

describe("summarizePolicy", () => {
  it.each([
    [
      [
        { key: "gpu", effect: "NoSchedule" },
        { key: "gpu", effect: "NoExecute" },
      ],
      "gpu, gpu",
    ],
    [
      [
        { name: "A", value: 1 },
        { name: "A", value: 2 },
      ],
      "A=1, A=2",
    ],
    [[{ operator: "Exists" }], ""],
    [["A", "B"], "A, B"],
    [[true, null], "yes, –"],
  ])("shows the default %j as %j", (value, text) => {
    const [section] = summarizePolicy({ defaults: { tolerations: value } }, "platform");
    expect(section!.lines).toMatchObject([{ setting: "Tolerations", text }]);
  });

  it("has no sections for an empty policy", () => {
    expect(summarizePolicy({}, "platform")).toEqual([]);
  });

  it("lists all parts of a policy with its scope", () => {
    const sections = summarizePolicy(
      {
        rules: { "resources.gpu": { min: 0, max: 2, required: true }, "envs.A": { locked: true } },
        switches: { allow_root: false },
        limit_factor: { disk: 2 },
        quota: { gpu: 0, mem: "1Ti" },
        defaults: { envs: [{ name: "A", value: "x" }], tolerations: [{ key: "gpu", operator: "Exists" }] },
      },
      "project/forest",
    );
    expect(sections.map(({ title }) => title)).toEqual([
      "Rules",
      "Switches",
      "Limit factors",
      "Quota",
      "Defaults",
    ]);
    expect(linesOf(sections, "Rules")).toHaveLength(4);
    expect(linesOf(sections, "Rules")!.slice(0, 2)).toEqual([
      "GPUs at least 0 (project/forest)",
      "GPUs at most 2 (project/forest)",
    ]);
    expect(linesOf(sections, "Quota")).toEqual([
      "GPU devices at most 0 (project/forest)",
      "CPU memory at most 1 TiB (project/forest)",
    ]);
    expect(linesOf(sections, "Defaults")!.at(0)).toBe("Variable A x (project/forest)");
    expect(sections.flatMap(({ lines }) => lines).every(({ scope }) => scope === "project/forest")).toBe(
      true,
    );
  });
});
