import { describe, expect, it } from "vitest";
import type { Tree } from "../../forms/trees";
import {
  findMistakes,
  isEmptyRule,
  keyOf,
  NEW_RULE,
  type PolicyDraft,
  readPolicy,
  writePolicy,
} from "./drafts";

const FULL_POLICY: Tree = {
  defaults: {
    resources: { cpu: "1", gpu: { devices: 1, memory: { limit: "50%" } } },
    node_selector: { pool: "gpu" },
    envs: { HF_HOME: "/models" },
  },
  limit_factor: { mem: 1.1 },
  rules: {
    "resources.gpu": { max: 2 },
    "volumes.*.read_only": { options: [true] },
    deadline: { max: "2d", required: true },
    "envs.HF_HOME": { locked: true },
  },
  switches: { storage_classes: [], registries: ["docker.io"], allow_root: false, never_fits: "warn" },
  quota: { cpu: "200", mem: "1Ti", runs: 50 },
  queue: { max_waiting_runs: 1000, weight: 0.5 },
};

/** Returns the content to send after a change to the draft. */
function writeWith(change: (draft: PolicyDraft) => void, content?: Tree): Tree {
  const draft = readPolicy(content);
  change(draft);
  return writePolicy(draft, content);
}

describe("round trips", () => {
  it.each([
    ["nothing", {}],
    ["everything", FULL_POLICY],
    ["zeros", { quota: { gpu: 0, runs: 0 }, rules: { "resources.gpu": { min: 0, max: 0 } } }],
    ["numbers and flags among options", { rules: { run_as_user: { options: [0, 1000] } } }],
    [
      "values without a form field",
      { rules: { deadline: { max: "2h", odd: 1 } }, quota: { odd: 1 }, queue: { odd: 1 } },
    ],
  ])("keep %s", (_, content) => {
    expect(writePolicy(readPolicy(content), content)).toEqual(content);
  });

  it("keep values that were not changed", () => {
    const written = writeWith((draft) => {
      draft.rules[0]!.max = "3";
      draft.rules.splice(2, 1);
      draft.quota.gpu = "8";
      draft.flags.allow_root = "";
      draft.defaults.gpu.type = "A100";
    }, FULL_POLICY);
    const { deadline: _, ...rules } = FULL_POLICY.rules;
    const { allow_root: __, ...switches } = FULL_POLICY.switches;
    expect(written).toEqual({
      ...FULL_POLICY,
      rules: { ...rules, "resources.gpu": { max: "3" } },
      switches,
      quota: { ...FULL_POLICY.quota, gpu: "8" },
      defaults: {
        ...FULL_POLICY.defaults,
        resources: { cpu: "1", gpu: { devices: 1, type: "A100", memory: { limit: "50%" } } },
      },
    });
  });

  it("drop sections that are empty after a change", () => {
    const written = writeWith(
      (draft) => {
        draft.rules = [];
        draft.quota.runs = " ";
        draft.limit_factor.mem = "";
        draft.queue.weight = "";
      },
      {
        rules: { replicas: { max: 4 } },
        quota: { runs: 5 },
        limit_factor: { mem: 2 },
        queue: { weight: 2 },
      },
    );
    expect(written).toEqual({});
  });
});

describe("the queue", () => {
  it.each([
    [{ max_waiting_runs: " 500 " }, { max_waiting_runs: "500" }],
    [{ weight: "2" }, { weight: "2" }],
    [
      { max_waiting_runs: "500", weight: "0.5" },
      { max_waiting_runs: "500", weight: "0.5" },
    ],
  ])("with %j is sent as %j", (queue, expected) => {
    expect(writeWith((draft) => void Object.assign(draft.queue, queue)).queue).toEqual(expected);
  });

  it("keeps a weight that the user may not change", () => {
    const content = { queue: { max_waiting_runs: 1000, weight: 2 } };
    const written = writeWith((draft) => {
      draft.queue.max_waiting_runs = "500";
    }, content);
    expect(written).toEqual({ queue: { max_waiting_runs: "500", weight: 2 } });
  });
});

describe("switches", () => {
  it.each([
    ["allow_root", "true", true],
    ["allow_root", "false", false],
    ["existing_volumes", "block", "block"],
    ["existing_volumes", "", undefined],
  ] as const)("send %s with the choice %j as %j", (name, chosen, value) => {
    const written = writeWith((draft) => {
      draft.flags[name] = chosen;
    });
    expect(written.switches?.[name]).toBe(value);
  });

  it("distinguish an empty list from an unset list", () => {
    expect(readPolicy({ switches: { registries: [] } }).lists).toEqual({
      registries: [],
      storage_classes: null,
    });
    const written = writeWith((draft) => {
      draft.lists.registries = [];
    });
    expect(written).toEqual({ switches: { registries: [] } });
  });
});

describe("rules", () => {
  it.each([
    [
      "bounds without spaces",
      { path: " replicas ", min: " 1 ", max: "4" },
      { replicas: { min: "1", max: "4" } },
    ],
    [
      "words as options",
      { path: "action", options: ["job", "serve"] },
      { action: { options: ["job", "serve"] } },
    ],
    [
      "flags as options",
      { path: " volumes.data.read_only ", options: ["true"] },
      { "volumes.data.read_only": { options: [true] } },
    ],
    [
      "flags of a rule",
      { path: "envs", required: true, locked: true },
      { envs: { required: true, locked: true } },
    ],
    ["a path alone, for which the server reports an error", { path: "envs" }, { envs: {} }],
  ])("write %s", (_, rule, written) => {
    expect(writeWith((draft) => void draft.rules.push({ ...NEW_RULE, ...rule })).rules).toEqual(written);
  });

  it("write no rule without a path", () => {
    expect(writeWith((draft) => void draft.rules.push({ ...NEW_RULE, path: " ", max: "2" }))).toEqual({});
  });

  it("are identified by their path, or by their index if they have none", () => {
    expect(keyOf({ ...NEW_RULE, path: " envs " }, 3)).toBe("envs");
    expect(keyOf(NEW_RULE, 3)).toBe("#3");
  });

  it.each([
    [{}, true],
    [{ path: "envs" }, true],
    [{ min: " " }, true],
    [{ min: "0" }, false],
    [{ max: "1" }, false],
    [{ options: ["a"] }, false],
    [{ required: true }, false],
    [{ locked: true }, false],
  ])("are empty or not: %j", (rule, expected) => {
    expect(isEmptyRule({ ...NEW_RULE, ...rule })).toBe(expected);
  });
});

describe("findMistakes", () => {
  it.each([
    ["no rules", [], []],
    ["an empty rule", [{}], []],
    ["a rule without a path", [{ max: "2" }], ["rules.#0 required"]],
    ["different paths", [{ path: "envs" }, { path: "secrets" }], []],
    ["a path that is used twice", [{ path: "envs" }, { path: " envs " }], ["rules.envs duplicate"]],
  ])("checks %s", (_, rules, expected) => {
    const draft = { ...readPolicy(), rules: rules.map((rule) => ({ ...NEW_RULE, ...rule })) };
    expect(findMistakes(draft).map(({ path, rule }) => `${path} ${rule}`)).toEqual(expected);
  });
});
