import { describe, expect, it } from "vitest";
import type { Scope } from "../../api/scopes";
import { readCluster, writeCluster } from "./clusters";

const DETAILS = {
  executor: "kubernetes",
  connection: "in_cluster",
  namespace: "ai-{project}",
  create_namespaces: false,
  server_url: "https://fairlead.example.org",
  gpu_resource: "nvidia.com/gpu",
  gpu_sharing: "kai",
  gpu_product_label: "nvidia.com/gpu.product",
  gpu_types: { A100: ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"] },
  queueing: "kueue",
  kai_queue: "default-queue",
  kueue_queue: "ai",
  autoscaled: true,
  python_image: "python:3.13",
};

function read(details: object) {
  return readCluster({ details } as Scope);
}

describe("writeCluster", () => {
  it("returns the details that were read", () => {
    expect(writeCluster(read(DETAILS))).toEqual(DETAILS);
    const { server_url: _, ...details } = DETAILS;
    expect(writeCluster(read(details))).toEqual({ ...DETAILS, server_url: null });
  });

  it("resets the Kubernetes settings for the local executor", () => {
    expect(writeCluster({ ...read(DETAILS), executor: "local" })).toMatchObject({
      executor: "local",
      connection: "kubeconfig",
      namespace: "{project}",
      server_url: null,
      queueing: "none",
      autoscaled: false,
      storage_classes: null,
      runtime_classes: null,
      gpu_types: DETAILS.gpu_types,
    });
  });

  it.each([
    ["", null],
    ["  ", null],
    [" https://a.example ", "https://a.example"],
  ])("sends the server URL %j as %j", (server_url, sent) => {
    expect(writeCluster({ ...readCluster(), server_url }).server_url).toBe(sent);
  });

  it("splits the products of a GPU type, and leaves out empty rows", () => {
    const gpu_types = [
      { key: " A100 ", value: "a, b ,, c" },
      { key: "", value: "  " },
      { key: "L40", value: "" },
    ];
    expect(writeCluster({ ...readCluster(), gpu_types }).gpu_types).toEqual({
      A100: ["a", "b", "c"],
      L40: [],
    });
  });
});
