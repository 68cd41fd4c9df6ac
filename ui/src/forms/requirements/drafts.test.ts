import { describe, expect, it } from "vitest";
import type { Tree } from "../trees";
import { type BoundedDraft, type RequirementsDraft, readDraft, tryWriting, writeDraft } from "./drafts";

const NOTHING = { number: "", unit: "Gi" };

/** Changes an empty draft, or one created from `read`, and converts it to requirements. */
function writeWith(change: (draft: RequirementsDraft) => void, read?: Tree): Tree {
  const draft = readDraft(read);
  change(draft);
  return writeDraft(draft);
}

describe("round trips", () => {
  it.each<[string, Tree]>([
    ["nothing", {}],
    ["requests alone", { resources: { cpu: { requests: "500m" }, mem: { requests: "8Gi" } } }],
    ["requests and limits", { resources: { mem: { requests: "16G", limits: "20G" } } }],
    ["a limit alone", { resources: { mem: { limits: "20G" } } }],
    ["no limit", { resources: { cpu: { requests: "2", limits: "unlimited" } } }],
    ["the server's short notation", { resources: { cpu: 2, mem: "64Gi", gpu: 1, disk: "10Mi" } }],
    ["amounts with an exponent", { resources: { mem: { requests: "1e9" } } }],
    ["whole GPUs", { resources: { gpu: { devices: 2, type: "A100" } } }],
    ["no GPU", { resources: { gpu: { devices: 0 } } }],
    ["a share of a GPU", { resources: { gpu: { devices: 1, memory: "50%" } } }],
    [
      "a share with a limit",
      { resources: { gpu: { devices: 1, memory: { request: "50%", limit: "80%" } } } },
    ],
    ["a share with only a limit", { resources: { gpu: { devices: 1, memory: { limit: "50%" } } } }],
    ["a MIG profile", { resources: { gpu: { devices: 1, mig: "1g.5gb" } } }],
    ["shared memory", { resources: { shm: true } }],
    ["no shared memory", { resources: { shm: false } }],
    ["shared memory with a size", { resources: { shm: "64Mi" } }],
    ["extended resources", { resources: { extended: { "vendor.example/nic": 2 } } }],
    ["node labels", { node_selector: { pool: "gpu" } }],
    ["tolerations", { tolerations: [{ key: "gpu", operator: "Exists", tolerationSeconds: 60 }] }],
    ["an affinity", { affinity: { nodeAffinity: { required: [] } } }],
    ["volumes", { volumes: [{ name: "data", volume_type: "empty_dir", mount_path: "/x", odd: 1 }] }],
    ["secrets", { secrets: ["HF_TOKEN"] }],
    ["variables as a list", { envs: [{ name: "A", value: "" }] }],
    ["variables as a mapping", { envs: { A: 1 } }],
    ["classes and ids", { runtime_class: "kata", priority_class: "high", run_as_user: 0, fs_group: 1000 }],
    ["a compute resource", { profile: "small" }],
    [
      "values without a form field",
      { unheard_of: { a: [1] }, resources: { odd: 1, cpu: { requests: "1", burst: 2 } } },
    ],
  ])("keep %s", (_, requirements) => {
    expect(writeDraft(readDraft(requirements))).toEqual(requirements);
    expect(writeDraft(readDraft(requirements, "policy"))).toEqual(requirements);
  });

  it("keep the values next to a change", () => {
    const read = { resources: { cpu: { requests: "1", burst: 2 }, gpu: 1, odd: 1 }, envs: { A: 1 } };
    const written = writeWith((draft) => {
      draft.cpu.request.number = "2";
      draft.envs.push({ key: "B", value: "2" });
    }, read);
    expect(written).toEqual({
      resources: { cpu: { requests: "2", burst: 2 }, gpu: 1, odd: 1 },
      envs: [
        { name: "A", value: "1" },
        { name: "B", value: "2" },
      ],
    });
  });

  it("remove values that were cleared", () => {
    const read = { profile: "small", secrets: ["A"], envs: { A: 1 }, resources: { cpu: { requests: "1" } } };
    const written = writeWith((draft) => {
      draft.profile = "";
      draft.secrets = [];
      draft.envs = [];
      draft.cpu.request.number = " ";
    }, read);
    expect(written).toEqual({});
  });
});

it.each(["profile", "runtime_class", "priority_class", "run_as_user", "run_as_group", "fs_group"] as const)(
  "writes %s as typed, without surrounding spaces",
  (field) => {
    const typed = field === "profile" ? "small" : " 1000 ";
    expect(writeWith((draft) => void Object.assign(draft, { [field]: typed }))).toEqual({
      [field]: typed.trim(),
    });
  },
);

describe("a bounded resource", () => {
  const eight = { number: "8", unit: "Gi" };

  it.each<[string, BoundedDraft, Tree | undefined]>([
    ["nothing, untouched", { request: NOTHING, mode: "untouched", limit: NOTHING }, undefined],
    [
      "a request, untouched",
      { request: eight, mode: "untouched", limit: NOTHING },
      { requests: "8Gi", limits: "unlimited" },
    ],
    ["no limit", { request: NOTHING, mode: "unlimited", limit: NOTHING }, { limits: "unlimited" }],
    ["a request, default limit", { request: eight, mode: "policy", limit: NOTHING }, { requests: "8Gi" }],
    ["nothing, default limit", { request: NOTHING, mode: "policy", limit: NOTHING }, undefined],
    [
      "request and limit",
      { request: eight, mode: "limit", limit: { number: "10", unit: "Gi" } },
      { requests: "8Gi", limits: "10Gi" },
    ],
    [
      "a limit that is still empty",
      { request: eight, mode: "limit", limit: NOTHING },
      { requests: "8Gi", limits: "" },
    ],
  ])("is written for %s", (_, mem, written) => {
    const requirements = writeWith((draft) => {
      draft.mem = mem;
    });
    expect(requirements.resources?.mem).toEqual(written);
  });

  it("has the limit mode of the form if nothing is set", () => {
    expect(readDraft({}).cpu.mode).toBe("untouched");
    expect(readDraft({}, "policy").cpu.mode).toBe("policy");
  });

  it("offers a limit in the unit of the request", () => {
    expect(readDraft({ resources: { mem: { requests: "16G" } } }).mem.limit).toEqual({
      number: "",
      unit: "G",
    });
  });
});

describe("a GPU", () => {
  it.each([
    ["whole", { devices: 2 }],
    ["share", { devices: 1, memory: "50%" }],
    ["share", { devices: 1, memory: { limit: "50%" } }],
    ["mig", { devices: 1, mig: "1g.5gb" }],
  ])("is read as the part %s from %j", (part, gpu) => {
    expect(readDraft({ resources: { gpu } }).gpu.part).toBe(part);
  });

  it.each([
    ["0", undefined],
    ["2", undefined],
    ["1", "50%"],
  ])("with %s devices has the memory %j if a share was entered", (devices, memory) => {
    const written = writeWith(({ gpu }) => {
      Object.assign(gpu, { devices, part: "share", request: { number: "50", unit: "%" } });
    });
    expect(written.resources.gpu.memory).toBe(memory);
  });

  it("is sent with a space for a missing share or MIG profile, so that the server reports it", () => {
    const gpuWith = (part: "share" | "mig") =>
      writeWith(({ gpu }) => void Object.assign(gpu, { devices: "1", part })).resources.gpu;
    expect(gpuWith("share")).toEqual({ devices: "1", memory: " " });
    expect(gpuWith("mig")).toEqual({ devices: "1", mig: " " });
  });

  it("has a limit only if it differs from the request", () => {
    const hasLimit = (memory: unknown) =>
      readDraft({ resources: { gpu: { devices: 1, memory } } }).gpu.hasLimit;
    expect([hasLimit("50%"), hasLimit({ limit: "50%" }), hasLimit({ request: "50%", limit: "50%" })]).toEqual(
      [false, false, false],
    );
    expect(hasLimit({ request: "50%", limit: "80%" })).toBe(true);
  });
});

describe("shared memory", () => {
  it.each([
    [undefined, ""],
    [null, ""],
    [true, "true"],
    [false, "false"],
    ["64Mi", "size"],
  ])("of %j is read as the choice %j", (shm, choice) => {
    expect(readDraft({ resources: { shm } }).shm).toBe(choice);
  });

  it.each([
    ["", undefined],
    ["true", true],
    ["false", false],
    ["size", "64Mi"],
  ] as const)("is written for the choice %j", (shm, written) => {
    const requirements = writeWith((draft) => {
      Object.assign(draft, { shm, shmSize: { number: "64", unit: "Mi" } });
    });
    expect(requirements.resources?.shm).toBe(written);
  });

  it("is sent as a space if its size is missing, so that the server reports it", () => {
    expect(writeWith((draft) => void Object.assign(draft, { shm: "size" })).resources.shm).toBe(" ");
  });
});

describe("an affinity", () => {
  it.each(["nodeAffinity: {a: [1]}", '{"nodeAffinity": {"a": [1]}}'])("is read from the text %j", (text) => {
    expect(writeWith((draft) => void Object.assign(draft, { affinity: text })).affinity).toEqual({
      nodeAffinity: { a: [1] },
    });
  });

  it("that is neither YAML nor JSON is reported at its path, every time", () => {
    const draft = { ...readDraft(), affinity: "{" };
    for (const _ of [1, 2]) {
      const { body, errors } = tryWriting("requirements", () => writeDraft(draft));
      expect(body).toBeNull();
      expect(errors).toMatchObject([{ path: "requirements.affinity", rule: "yaml" }]);
    }
  });

  it("that is valid produces no errors", () => {
    expect(tryWriting("requirements", () => writeDraft(readDraft({ profile: "a" })))).toEqual({
      body: { profile: "a" },
      errors: [],
    });
  });
});
