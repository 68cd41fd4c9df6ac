import { describe, expect, it } from "vitest";
import { type Content, type FunctionDraft, findMistakes, formOf, readDraft, writeFunction } from "./drafts";
import type { Code, FunctionRecord } from "./requests";

function makeFunction(kind: string, content: Partial<Content>): FunctionRecord {
  return { kind, content, name: "train", scope: "project/forest", code: content.code } as FunctionRecord;
}

function makeCode(...files: [path: string, text: string | null][]): Code {
  return { files: files.map(([path, text]) => ({ path, text })) } as Code;
}

/** What is sent, as JSON has it: without fields that are undefined. */
function sent(draft: FunctionDraft, read?: FunctionRecord): unknown {
  return JSON.parse(JSON.stringify(writeFunction(draft, read)));
}

describe("formOf", () => {
  it.each([
    ["container", "container", { command: ["a"] }],
    ["command", "python", { command: ["a"] }],
    ["python", "python", { command: ["a"], source: "main.py" }],
    ["python", "python", { command: ["a"], code: "abc" }],
    ["python", "python", { command: [] }],
    ["python", "python", {}],
  ] as const)("is %s for the kind %s with %j", (form, kind, content) => {
    expect(formOf(makeFunction(kind, content as Partial<Content>))).toBe(form);
  });
});

describe("round trips", () => {
  const file = makeFunction("python", { source: "main.py", handler: "main", code: "abc", args: ["a b"] });

  it("send the text of a single file", () => {
    expect(sent(readDraft(file, makeCode(["main.py", "print()"])), file)).toEqual({
      kind: "python",
      text: "print()",
      source: "main.py",
      handler: "main",
      args: ["a b"],
    });
  });

  it.each([
    ["a folder", makeCode(["main.py", "print()"], ["other.py", ""])],
    ["a folder with one file", makeCode(["lib/main.py", "print()"])],
    ["a file that is not text", makeCode(["main.py", null])],
  ])("keep the code of %s", (_, code) => {
    const draft = readDraft(file, code);
    expect(draft.text).toBeNull();
    expect(sent(draft, file)).toMatchObject({ code: "abc", source: "main.py", handler: "main" });
    expect(sent(draft, file)).not.toHaveProperty("text");
  });

  it("keep a command and what the form does not show of it", () => {
    const read = makeFunction("python", {
      command: ["bash", "-c", "it's"],
      image: "python:3",
      pull_secrets: ["registry"],
      port: 8080,
    });
    expect(sent(readDraft(read), read)).toEqual({
      kind: "python",
      command: `bash -c 'it'"'"'s'`,
      image: "python:3",
      pull_secrets: ["registry"],
      port: 8080,
    });
  });

  it("keep a container", () => {
    const read = makeFunction("container", {
      image: "hub/a:1",
      command: ["serve", "a b"],
      args: ["--x"],
      port: 80,
      pull_policy: "Always",
      pull_secrets: ["registry"],
    });
    expect(sent(readDraft(read), read)).toEqual({
      kind: "container",
      image: "hub/a:1",
      command: "serve 'a b'",
      args: "--x",
      port: 80,
      pull_policy: "Always",
      pull_secrets: ["registry"],
    });
  });

  it("drop what belongs to another form once the form is changed", () => {
    const read = makeFunction("python", { command: ["a"], args: ["b"], port: 80, pull_policy: "Always" });
    const draft = { ...readDraft(read), form: "python" as const, text: "x = 1" };
    expect(sent(draft, read)).toEqual({ kind: "python", text: "x = 1" });
  });
});

describe("a new function", () => {
  it("is Python in main.py", () => {
    expect(readDraft()).toMatchObject({ form: "python", text: "", source: "main.py", port: "" });
  });

  it.each([
    ["80", 80],
    [" 80 ", 80],
    ["eighty", "eighty"],
    ["-1", "-1"],
    ["", undefined],
    ["  ", undefined],
  ])("with the port %j sends %j", (typed, port) => {
    expect(writeFunction({ ...readDraft(), form: "container", port: typed }).port).toBe(port);
  });

  it("sends no fields that are blank", () => {
    const blank = { source: " ", handler: " ", image: " ", args: " ", command: " " };
    expect(sent({ ...readDraft(), ...blank, text: "x" })).toEqual({ kind: "python", text: "x" });
    expect(sent({ ...readDraft(), ...blank, form: "container" })).toEqual({ kind: "container" });
  });
});

describe("findMistakes", () => {
  const complete = { ...readDraft(), text: "x = 1" };

  it.each([
    ["train", []],
    ["train.v2+x", []],
    ["...", []],
    ["", ["name"]],
    [".", ["name"]],
    ["..", ["name"]],
    ["a/b", ["name"]],
  ])("checks the name %j", (name, paths) => {
    expect(findMistakes(name, complete).map(({ path }) => path)).toEqual(paths);
  });

  it.each<[string, Partial<FunctionDraft>, string[]]>([
    ["Python without code", { text: " \n" }, ["text"]],
    ["Python whose code is a folder", { text: null }, []],
    ["a command that is empty", { form: "command", command: " " }, ["command"]],
    ["a command", { form: "command", command: "ls" }, []],
    ["a container, which the server checks", { form: "container", text: "" }, []],
  ])("checks %s", (_, change, paths) => {
    expect(findMistakes("train", { ...complete, ...change }).map(({ path }) => path)).toEqual(paths);
  });
});
