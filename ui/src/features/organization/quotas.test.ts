import { describe, expect, it } from "vitest";
import { type Resource, shareOf, showAmount, showQuota, showUsed } from "./quotas";

describe("showAmount", () => {
  it.each<[Resource, string | number, string | undefined, string]>([
    ["gpu", 2, undefined, "2"],
    ["cpu", "1500m", undefined, "1.5"],
    ["runs", 1234, undefined, "1,234"],
    ["mem", 0, undefined, "0 bytes"],
    ["mem", "1536Mi", undefined, "1.5 GiB"],
    ["mem", "1536Mi", "2Ti", "1.5 GiB"],
    ["mem", "1536Mi", "4096", "1.5 GiB"],
    ["mem", "1500M", "2G", "1.5 GB"],
    ["mem", "1Gi", "2T", "1.07 GB"],
    ["mem", 1e9, "1G", "1 GB"],
  ])("shows %s %j next to the quota %j as %j", (resource, amount, like, text) => {
    expect(showAmount(resource, amount, like)).toBe(text);
  });
});

describe("showQuota", () => {
  it.each<[Resource, string | number, string]>([
    ["gpu", 8, "8"],
    ["cpu", "200", "200"],
    ["cpu", "1500m", "1.5"],
    ["mem", "1Ti", "1 TiB"],
    ["mem", "1024Gi", "1,024 GiB"],
    ["mem", "500G", "500 GB"],
    ["mem", "4096", "4,096 bytes"],
    ["mem", "odd", "odd"],
  ])("shows %s %j as %j", (resource, quota, text) => {
    expect(showQuota(resource, quota)).toBe(text);
  });
});

describe("shareOf", () => {
  it.each([
    [0, 8, 0, "free"],
    [6, 8, 0.75, "free"],
    ["800m", "1", 0.8, "near"],
    ["1Gi", "1Gi", 1, "full"],
    [9, 8, 1.125, "over"],
    [0, 0, 1, "full"],
    [1, 0, 2, "over"],
  ])("of %j with the quota %j is %d, which is %s", (used, quota, share, level) => {
    expect(shareOf(used, quota)).toEqual({ share, level });
  });
});

describe("showUsed", () => {
  const used = { gpu: 6, cpu: "26", mem: "64Gi", runs: 1 };

  it.each<[Resource[], string]>([
    [["gpu", "cpu", "runs"], "6 GPUs, 26 cores and 1 run"],
    [["mem"], "64 GiB of memory"],
    [["gpu", "mem"], "6 GPUs and 64 GiB of memory"],
    [[], ""],
  ])("shows %j", (resources, text) => {
    expect(showUsed(used, resources)).toBe(text);
  });

  it("leaves out unused resources", () => {
    expect(showUsed({ gpu: 0, cpu: "1", mem: "0", runs: 0 }, ["gpu", "cpu", "mem", "runs"])).toBe("1 core");
  });
});
