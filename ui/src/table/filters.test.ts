import { describe, expect, it } from "vitest";
import type { Kind } from "./columns";
import { OPERATORS, readFilter, writeFilter } from "./filters";

describe("readFilter", () => {
  it.each<[Kind, string, string, string]>([
    ["number", ">=32Gi", "at least", "32Gi"],
    ["number", ">32Gi", "more than", "32Gi"],
    ["number", "<=2", "at most", "2"],
    ["number", "<2", "less than", "2"],
    ["number", "2", "is", "2"],
    ["number", "!2", "is not", "2"],
    ["text", "tra", "contains", "tra"],
    ["text", "=train", "is", "train"],
    ["text", "!train", "is not", "train"],
    ["keyword", "failed", "is", "failed"],
    ["keyword", "none", "is not set", ""],
    ["keyword", "!none", "is set", ""],
    ["time", ">=2024-05-01", "since", "2024-05-01"],
    ["time", "<2024-05-01", "before", "2024-05-01"],
    ["boolean", "true", "yes", ""],
    ["boolean", "any", "any", ""],
    ["time", "soon", "", "soon"],
    ["boolean", "maybe", "", "maybe"],
    ["text", "", "contains", ""],
  ])("reads the %s filter %j as %j %j", (kind, text, label, value) => {
    const read = readFilter(kind, text);
    expect([read.operator.label, read.value]).toEqual([label, value]);
  });
});

it.each(
  Object.entries(OPERATORS).flatMap(([kind, operators]) =>
    operators.map((each) => [kind as Kind, each] as const),
  ),
)("reads a %s filter as it was written with %j", (kind, operator) => {
  const value = operator.fixed ? "" : "64Gi";
  expect(readFilter(kind, writeFilter(operator, value))).toEqual({ operator, value });
});
