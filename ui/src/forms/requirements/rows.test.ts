import { describe, expect, it } from "vitest";
import {
  readPairs,
  readToleration,
  readVolume,
  writeMapping,
  writePairs,
  writeToleration,
  writeVolume,
} from "./rows";

describe("pairs", () => {
  it.each([
    [{ A: 1, B: "" }],
    [
      [
        { name: "A", value: 1 },
        { name: "B", value: "" },
      ],
    ],
    [
      [
        { key: "A", value: 1 },
        { key: "B", value: "" },
      ],
    ],
  ])("are read from %j", (pairs) => {
    expect(readPairs(pairs)).toEqual([
      { key: "A", value: "1" },
      { key: "B", value: "" },
    ]);
  });

  it("are empty if nothing is set", () => {
    expect(readPairs(undefined)).toEqual([]);
  });

  it("are written without empty rows, but with rows that are incomplete or repeated", () => {
    const rows = [
      { key: " A ", value: " 1 " },
      { key: "", value: "" },
      { key: "  ", value: "" },
      { key: "A", value: "2" },
      { key: "", value: "3" },
    ];
    expect(writePairs(rows, "name")).toEqual([
      { name: "A", value: " 1 " },
      { name: "A", value: "2" },
      { name: "", value: "3" },
    ]);
    expect(writePairs(rows.slice(0, 1), "key")).toEqual([{ key: "A", value: " 1 " }]);
  });

  it("are written as a mapping", () => {
    expect(
      writeMapping([
        { key: " nic ", value: "2" },
        { key: "", value: "" },
      ]),
    ).toEqual({ nic: "2" });
  });
});

describe("tolerations", () => {
  it.each([
    { operator: "Exists" },
    { key: "gpu", operator: "Exists", effect: "NoSchedule" },
    { key: "gpu", operator: "Equal", value: "a", effect: "NoExecute", tolerationSeconds: "60" },
  ])("are unchanged by a round trip: %j", (toleration) => {
    expect(writeToleration(readToleration(toleration))).toEqual(toleration);
  });

  it("compare for equality by default, as in Kubernetes", () => {
    expect(writeToleration(readToleration({ key: "a", value: "b" }))).toEqual({
      key: "a",
      operator: "Equal",
      value: "b",
    });
  });

  it("have no spaces around their key", () => {
    expect(writeToleration(readToleration({ key: " gpu ", operator: "Exists" })).key).toBe("gpu");
  });

  it("have no value if they only test for existence", () => {
    const draft = { ...readToleration({ key: "a", value: "b" }), operator: "Exists" as const };
    expect(writeToleration(draft)).toEqual({ key: "a", operator: "Exists" });
  });
});

describe("volumes", () => {
  it.each([
    { name: "data", volume_type: "shared_volume", mount_path: "/data" },
    {
      name: "cache",
      volume_type: "persistent_volume_claim",
      mount_path: "/cache",
      sub_path: "a/b",
      read_only: true,
      spec: { size: "10Gi", storage_class: "fast" },
    },
  ])("are unchanged by a round trip: %j", (volume) => {
    expect(writeVolume(readVolume(volume))).toEqual(volume);
  });

  it("are written without empty fields", () => {
    const draft = readVolume({ volume_type: "empty_dir", spec: { size: null, medium: "Memory" } });
    expect(draft.spec).toEqual({ size: "", medium: "Memory" });
    expect(writeVolume(draft)).toEqual({ volume_type: "empty_dir", spec: { medium: "Memory" } });
  });
});
