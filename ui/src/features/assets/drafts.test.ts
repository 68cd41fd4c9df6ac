import { expect, it } from "vitest";
import { readAsset, writeAsset } from "./drafts";
import type { Asset } from "./requests";

const SAVED = {
  name: "large",
  description: "For training",
  scope: "department/vision",
  workload_types: ["training"],
  requirements: {
    resources: {
      cpu: { requests: "1" },
      mem: { requests: "2Gi", limits: "unlimited" },
      disk: { requests: "3Gi", limits: "4Gi" },
      shm: "1Gi",
      gpu: { devices: 1, type: "A100" },
      extended: { "vendor.example/nic": 2 },
    },
    node_selector: [{ key: "pool", value: "a" }],
    tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule" }],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "In", values: ["a"] }] }],
        },
      },
    },
    volumes: [
      { name: "scratch", volume_type: "empty_dir", mount_path: "/scratch", spec: { size: "1Gi" } },
      {
        name: "own",
        volume_type: "persistent_volume_claim",
        mount_path: "/data",
        spec: { size: "10Gi", storage_class: "fast" },
      },
    ],
    secrets: ["HF_TOKEN"],
    envs: [{ name: "A", value: "1" }],
    fs_group: 8877,
    run_as_user: 1000,
    run_as_group: 1001,
    runtime_class: "nvidia",
    priority_class: "high",
    odd: 1,
  },
} as unknown as Asset;

it("writes a saved asset back unchanged", () => {
  const { name, description, scope, workload_types, requirements } = SAVED;
  expect(writeAsset(readAsset(SAVED), { hasTypes: true })).toEqual({
    name,
    description,
    scope,
    workload_types,
    requirements,
  });
});

it("starts empty, with the platform as the scope", () => {
  expect(writeAsset(readAsset(), { hasTypes: true })).toEqual({
    name: "",
    description: "",
    scope: "platform",
    workload_types: null,
    requirements: {},
  });
});

it("sends no workload types for a template", () => {
  expect(writeAsset(readAsset(SAVED), { hasTypes: false })).not.toHaveProperty("workload_types");
});

it("trims the name but not the description", () => {
  const draft = { ...readAsset(), name: " large ", description: " two\nlines " };
  expect(writeAsset(draft, { hasTypes: false })).toMatchObject({
    name: "large",
    description: " two\nlines ",
  });
});
