import { expect, it } from "vitest";
import { describeSwitch, FLAGS, LISTS, SWITCHES } from "./switches";

it("has every switch once: flags with choices, lists with an example", () => {
  expect(SWITCHES.map(({ name }) => name).toSorted()).toEqual([...FLAGS, ...LISTS].toSorted());
  for (const { name, choices, example } of SWITCHES) {
    const isFlag = (FLAGS as readonly string[]).includes(name);
    expect([Boolean(choices), Boolean(example)]).toEqual([isFlag, !isFlag]);
  }
});

it("describes every choice differently", () => {
  const described = SWITCHES.flatMap(({ name, choices = [] }) =>
    choices.map(({ value }) => describeSwitch(name, value)),
  );
  expect(new Set(described).size).toBe(2 * FLAGS.length);
  expect(described.filter((text) => text.includes("_"))).toEqual([]);
});

it.each([
  ["registries", ["docker.io", "ghcr.io"], "docker.io, ghcr.io"],
  ["storage_classes", ["fast"], "fast"],
  ["registries", null, "any"],
  ["storage_classes", null, "any"],
  ["registries", [], "No registry"],
  ["storage_classes", [], "No storage class"],
  ["unheard_of", "x", "unheard_of: x"],
])("includes the value in the description of %s = %j: %j", (name, value, text) => {
  expect(describeSwitch(name, value)).toContain(text);
});
