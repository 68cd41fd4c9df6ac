import { expect, it } from "vitest";
import { parseExactly } from "./numbers";

it.each(["9007199254740993", "-9007199254740993", "123456789012345678901234567890"])(
  "keeps every digit of %s when it is serialized again",
  (number) => {
    expect(JSON.stringify(parseExactly(`{"value": [${number}]}`))).toBe(`{"value":[${number}]}`);
  },
);

it.each([
  "null",
  "true",
  '"text"',
  "[1, -2, 0.5, 1e300, 9007199254740991]",
  '{"a": {"b": []}, "9007199254740993": 1}',
])("reads %s as JSON.parse does", (text) => {
  expect(parseExactly(text)).toEqual(JSON.parse(text));
});

it("rejects text that is not JSON", () => {
  expect(() => parseExactly("{")).toThrow(SyntaxError);
});
