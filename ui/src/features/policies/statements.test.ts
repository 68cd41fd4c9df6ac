import { describe, expect, it } from "vitest";
import type { Tree } from "../../forms/trees";
import type { EffectivePolicy } from "./requests";
import { type Chapter, listEffective, listSaid } from "./statements";
import { SWITCHES } from "./switches";

function stated(value: unknown, scope: string | null = "platform") {
  return { value, source: { layer: "policy", scope, name: null, revision: null } };
}

function makeEffective(parts: Tree): EffectivePolicy {
  const switches = Object.fromEntries(SWITCHES.map(({ name }) => [name, stated(null, null)]));
  const policy = { scope: "project/forest", rules: {}, switches, limit_factor: {}, quotas: [], defaults: [] };
  return { ...policy, ...parts } as unknown as EffectivePolicy;
}

function linesOf(chapters: Chapter[], title: string): string[] | undefined {
  const chapter = chapters.find((one) => one.title === title);
  return chapter?.statements.map(({ about, text, from }) =>
    [about, text, `(${from})`].filter(Boolean).join(" "),
  );
}

describe("rules", () => {
  it.each([
    ["resources.gpu", { max: [stated(2)] }, ["GPUs at most 2 (platform)"]],
    [
      "resources.mem",
      { min: [stated("1Gi")], max: [stated("8Gi"), stated("4Gi", "project/forest")] },
      [
        "CPU memory at least 1Gi (platform)",
        "CPU memory at most 8Gi (platform)",
        "CPU memory at most 4Gi (project/forest)",
      ],
    ],
    ["action", { options: [stated(["job"])] }, ["Action only job (platform)"]],
    [
      "action",
      { options: [stated(["job", "serve", "workspace"])] },
      ["Action only job, serve or workspace (platform)"],
    ],
    ["action", { options: [stated([])] }, ["Action only nothing (platform)"]],
    [
      "volumes.*.read_only",
      { options: [stated([true])] },
      ["Read-only flag of every volume only yes (platform)"],
    ],
    ["deadline", { max: [stated(93_600)] }, ["Deadline at most 1d2h (platform)"]],
    ["deadline", { max: [stated(90)] }, ["Deadline at most 1m30s (platform)"]],
    ["deadline", { max: [stated("2h")] }, ["Deadline at most 2h (platform)"]],
  ])("at %s say %j", (path, rule, lines) => {
    expect(linesOf(listEffective(makeEffective({ rules: { [path]: rule } })), "Rules")).toEqual(lines);
  });

  it("show a limit on the idle timeout as a duration", () => {
    const policy = makeEffective({ rules: { idle_timeout: { max: [stated(28_800)] } } });
    expect(linesOf(listEffective(policy), "Rules")).toEqual([expect.stringContaining("at most 8h")]);
  });

  it("have one line each for required and locked", () => {
    const policy = makeEffective({
      rules: { envs: { required: stated(true), locked: stated(true, "project/a") } },
    });
    expect(linesOf(listEffective(policy), "Rules")).toEqual([
      expect.stringMatching(/^Environment variables .* \(platform\)$/),
      expect.stringMatching(/^Environment variables .* \(project\/a\)$/),
    ]);
  });
});

describe("listEffective", () => {
  it("has rules and switches even if no policy exists", () => {
    const chapters = listEffective(makeEffective({}));
    expect(chapters.map(({ title }) => title)).toEqual(["Rules", "Switches"]);
    expect(chapters[0]).toMatchObject({ note: "None", statements: [] });
    expect(chapters[1]!.statements).toHaveLength(SWITCHES.length);
  });

  it("lists factors, quotas with their usage, and defaults from the nearest scope on", () => {
    const chapters = listEffective(
      makeEffective({
        limit_factor: { mem: stated(1.5) },
        quotas: [
          { scope: "department/vision", gpu: 8, runs: 50, used: { gpu: 2, cpu: "1", mem: "1Gi", runs: 3 } },
        ],
        defaults: [
          { scope: "platform", requirements: { resources: { cpu: { requests: "1" } } } },
          { scope: "project/forest", requirements: { profile: "small", secrets: ["A", "B"] } },
        ],
      }),
    );
    expect(linesOf(chapters, "Limit factors")).toEqual(["CPU memory limit 1.5 × the request (platform)"]);
    expect(linesOf(chapters, "Quota")).toEqual([
      "GPU devices at most 8, 2 in use (department/vision)",
      "Runs at most 50, 3 in use (department/vision)",
    ]);
    expect(linesOf(chapters, "Defaults")).toEqual([
      "Compute resource small (project/forest)",
      "Secrets A, B (project/forest)",
      "CPU compute request 1 (platform)",
    ]);
  });
});

describe("listSaid", () => {
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
    const [chapter] = listSaid({ defaults: { tolerations: value } }, "platform");
    expect(chapter!.statements).toMatchObject([{ about: "Tolerations", text }]);
  });

  it("has no chapters for an empty policy", () => {
    expect(listSaid({}, "platform")).toEqual([]);
  });

  it("lists all parts of one policy, from its scope", () => {
    const chapters = listSaid(
      {
        rules: { "resources.gpu": { min: 0, max: 2, required: true }, "envs.A": { locked: true } },
        switches: { allow_root: false },
        limit_factor: { disk: 2 },
        quota: { gpu: 0, mem: "1Ti" },
        defaults: { envs: [{ name: "A", value: "x" }], tolerations: [{ key: "gpu", operator: "Exists" }] },
      },
      "project/forest",
    );
    expect(chapters.map(({ title }) => title)).toEqual([
      "Rules",
      "Switches",
      "Limit factors",
      "Quota",
      "Defaults",
    ]);
    expect(linesOf(chapters, "Rules")).toHaveLength(4);
    expect(linesOf(chapters, "Rules")!.slice(0, 2)).toEqual([
      "GPUs at least 0 (project/forest)",
      "GPUs at most 2 (project/forest)",
    ]);
    expect(linesOf(chapters, "Quota")).toEqual([
      "GPU devices at most 0 (project/forest)",
      "CPU memory at most 1Ti (project/forest)",
    ]);
    expect(linesOf(chapters, "Defaults")!.at(0)).toBe("Variable A x (project/forest)");
    expect(
      chapters.flatMap(({ statements }) => statements).every(({ from }) => from === "project/forest"),
    ).toBe(true);
  });
});
