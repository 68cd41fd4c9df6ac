import { describe, expect, it } from "vitest";
import { splitLines, tokenize } from "./python";

function kindsIn(code: string): Record<string, string> {
  const marked = tokenize(code).filter((token) => token.kind);
  return Object.fromEntries(marked.map(({ text, kind }) => [text, kind!]));
}

describe("tokenize", () => {
  it.each<[string, Record<string, string>]>([
    ["def f(): pass  # done", { def: "keyword", pass: "keyword", "# done": "comment" }],
    ["x = 'a # b'", { "'a # b'": "string" }],
    ['f"{x}" + rb"y"', { 'f"{x}"': "string", 'rb"y"': "string" }],
    ["'it\\'s'", { "'it\\'s'": "string" }],
    ['"""two\nlines"""', { '"""two\nlines"""': "string" }],
    ['"""open\nend', { '"""open\nend': "string" }],
    ["'open\nx = 1", { "'open": "string", "1": "number" }],
    ["0x1f + 1_000 + 2.5", { "0x1f": "number", "1_000": "number", "2.5": "number" }],
    ["classify = imports", {}],
    ["", {}],
  ])("marks the tokens of %j", (code, kinds) => {
    expect(kindsIn(code)).toEqual(kinds);
  });

  it("preserves the whole text", () => {
    const code = "import os\n\nclass A:\n    '''doc'''\n    x = {1: \"a\"}  # note\n";
    expect(
      tokenize(code)
        .map(({ text }) => text)
        .join(""),
    ).toBe(code);
  });
});

describe("splitLines", () => {
  const linesOf = (code: string) =>
    splitLines(tokenize(code)).map((line) => line.map(({ text }) => text).join(""));

  it.each([
    ["", [""]],
    ["a", ["a"]],
    ["a\n", ["a"]],
    ["a\n\n", ["a", ""]],
    ["a\n\nb", ["a", "", "b"]],
  ])("splits %j into lines", (code, lines) => {
    expect(linesOf(code)).toEqual(lines);
  });

  it("marks each line of a multi-line string", () => {
    const [first, second] = splitLines(tokenize('"""one\ntwo"""\n'));
    expect([first, second]).toEqual([
      [{ text: '"""one', kind: "string" }],
      [{ text: 'two"""', kind: "string" }],
    ]);
  });
});
