import { expect, it } from "vitest";
import { sentence } from "./sentences";

it.each([
  ["the name is missing", "The name is missing."],
  ["done!", "Done!"],
  ["really?", "Really?"],
  ["It ended.", "It ended."],
  ["project/forest does not exist", "project/forest does not exist."],
  ["main.py is missing", "main.py is missing."],
  ["ada@example.org left", "ada@example.org left."],
  ["'many' is not an amount", "'many' is not an amount."],
  ["", "."],
])("writes %j as the sentence %j", (text, expected) => {
  expect(sentence(text)).toBe(expected);
});
