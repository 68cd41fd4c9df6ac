import { describe, expect, it } from "vitest";
import {
  type Content,
  type FunctionDraft,
  findMistakes,
  readDraft,
  sourceTypeOf,
  writeFunction,
} from "./drafts";
import type { Code, FunctionRecord } from "./requests";

function makeFunction(kind: string, content: Partial<Content>): FunctionRecord {
  return { kind, content, name: "train", scope: "project/forest", code: content.code } as FunctionRecord;
}

function makeCode(...files: [path: string, text: string | null][]): Code {
  return { files: files.map(([path, text]) => ({ path, text })) } as Code;
}

/** The JSON that is sent, without undefined fields. */
function toJson(draft: FunctionDraft, original?: FunctionRecord): unknown {
  return JSON.parse(JSON.stringify(writeFunction(draft, original)));
}

describe("sourceTypeOf", () => {
  it.each([
    ["container", "container", { command: ["a"] }],
    ["command", "python", { command: ["a"] }],
    ["python", "python", { command: ["a"], source: "main.py" }],
    ["python", "python", { command: ["a"], code: "abc" }],
    ["python", "python", { command: [] }],
    ["python", "python", {}],
  ] as const)("is %s for the kind %s with %j", (sourceType, kind, content) => {
    expect(sourceTypeOf(makeFunction(kind, content as Partial<Content>))).toBe(sourceType);
  });
});

describe("round trips", () => {
  const file = makeFunction("python", { source: "main.py", handler: "main", code: "abc", args: ["a b"] });

  it("send the text of a single file", () => {
    expect(toJson(readDraft(file, makeCode(["main.py", "print()"])), file)).toEqual({
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
    expect(toJson(draft, file)).toMatchObject({ code: "abc", source: "main.py", handler: "main" });
    expect(toJson(draft, file)).not.toHaveProperty("text");
  });

  it("keep a command and values that the form does not show", () => {
    const original = makeFunction("python", {
      command: ["bash", "-c", "it's"],
      image: "python:3",
      pull_secrets: ["registry"],
      port: 8080,
    });
    expect(toJson(readDraft(original), original)).toEqual({
      kind: "python",
      command: `bash -c 'it'"'"'s'`,
      image: "python:3",
      pull_secrets: ["registry"],
      port: 8080,
    });
  });

  it("keep a container", () => {
    const original = makeFunction("container", {
      image: "hub/a:1",
      command: ["serve", "a b"],
      args: ["--x"],
      port: 80,
      pull_policy: "Always",
      pull_secrets: ["registry"],
    });
    expect(toJson(readDraft(original), original)).toEqual({
      kind: "container",
      image: "hub/a:1",
      command: "serve 'a b'",
      args: "--x",
      port: 80,
      pull_policy: "Always",
      pull_secrets: ["registry"],
    });
  });

  it("drop values of the previous source type after it changes", () => {
    const original = makeFunction("python", { command: ["a"], args: ["b"], port: 80, pull_policy: "Always" });
    const draft = { ...readDraft(original), sourceType: "python" as const, text: "x = 1" };
    expect(toJson(draft, original)).toEqual({ kind: "python", text: "x = 1" });
  });
});

describe("a new function", () => {
  it("is Python in main.py", () => {
    expect(readDraft()).toMatchObject({ sourceType: "python", text: "", source: "main.py", port: "" });
  });

  it.each([
    ["80", 80],
    [" 80 ", 80],
    ["eighty", "eighty"],
    ["-1", "-1"],
    ["", undefined],
    ["  ", undefined],
  ])("with the port %j sends %j", (typed, port) => {
    expect(writeFunction({ ...readDraft(), sourceType: "container", port: typed }).port).toBe(port);
  });

  it("sends no blank fields", () => {
    const blank = { source: " ", handler: " ", image: " ", args: " ", command: " " };
    expect(toJson({ ...readDraft(), ...blank, text: "x" })).toEqual({ kind: "python", text: "x" });
    expect(toJson({ ...readDraft(), ...blank, sourceType: "container" })).toEqual({ kind: "container" });
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
    ["an empty command", { sourceType: "command", command: " " }, ["command"]],
    ["a command", { sourceType: "command", command: "ls" }, []],
    ["a container, which the server checks", { sourceType: "container", text: "" }, []],
  ])("checks %s", (_, change, paths) => {
    expect(findMistakes("train", { ...complete, ...change }).map(({ path }) => path)).toEqual(paths);
  });
});
