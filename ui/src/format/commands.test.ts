import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { joinWords } from "./commands";

it.each([
  [[], ""],
  [["echo", "hi"], "echo hi"],
  [
    ["train.py", "--lr=0.1", "s3://bucket/a,b", "user@host:80%+"],
    "train.py --lr=0.1 s3://bucket/a,b user@host:80%+",
  ],
  [["a b"], "'a b'"],
  [[""], "''"],
  [["it's"], `'it'"'"'s'`],
  [["$HOME", "*", "~"], "'$HOME' '*' '~'"],
])("joins the words %j with the quotes that a shell needs", (words, line) => {
  expect(joinWords(words)).toBe(line);
});

it("writes a line that a shell splits into the same words", () => {
  const words = [
    "it's",
    '"hi" $USER',
    "a\nb",
    "back\\slash",
    "`date`",
    "",
    "ünï",
    "!!",
    "#x",
    "a;b",
    "plain",
  ];
  const printed = execFileSync("sh", ["-c", `printf '%s\\0' ${joinWords(words)}`], { encoding: "utf-8" });
  expect(printed.split("\0").slice(0, -1)).toEqual(words);
});
