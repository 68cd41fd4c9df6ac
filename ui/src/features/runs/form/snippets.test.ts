import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { Request } from "../../../api/runs";
import { type Snippet, writeCommand, writeCurl, writePython, writeYaml } from "./snippets";

const REQUEST: Request = {
  function: "train",
  profile: "small",
  resources: { shm: true, cpu: { requests: "2" } },
  secrets: ["HF_TOKEN"],
  envs: [{ name: "GREETING", value: '"hi" $USER' }],
  inputs: { epochs: 4, note: "it's $HOME" },
  deadline: "90m",
};

function textOf(snippet: Snippet): string {
  if ("unavailable" in snippet) throw new Error(snippet.unavailable);
  return snippet.text;
}

/** Runs a snippet in a shell. Returns the arguments of the command, and the file it writes. */
function runInShell(text: string, command: string): { words: string[]; files: string } {
  const stub = `${command}() { printf '%s\\0' "$@"; }\ncat() { printf 'FILE\\0'; command cat; printf '\\0'; }\n`;
  const isolated = text.replaceAll("> run.yaml ", "");
  const out = execFileSync("sh", ["-c", stub + isolated], { encoding: "utf-8" })
    .split("\0")
    .slice(0, -1);
  return out[0] === "FILE" ? { words: out.slice(2), files: out[1]! } : { words: out, files: "" };
}

describe("writePython", () => {
  it("writes a program that submits the request", () => {
    expect(textOf(writePython("forest", REQUEST))).toBe(`import fairlead as fl

project = fl.project("forest")
function = project.function("train")
run = function.run(
    profile="small",
    resources={"shm": True, "cpu": {"requests": "2"}},
    secrets=["HF_TOKEN"],
    envs=[{"name": "GREETING", "value": "\\"hi\\" $USER"}],
    inputs={"epochs": 4, "note": "it's $HOME"},
    deadline="90m",
)
print(run.id)
`);
  });

  it.each([
    [{ function: "train" }, "run = function.run()\nprint(run.id)\n"],
    [{ function: "serve", action: "serve" }, 'run = function.run(\n    "serve",\n)\nprint(run.id)\n'],
    [{ function: "a", strict: false, priority: null }, "    strict=False,\n    priority=None,\n"],
    [{ function: "a", schedule: { cron: "0 3 * * *" } }, "print(run)\n"],
    [
      { function: { name: "sh", command: ["ls"], port: 80 } },
      'project.function("sh", command=["ls"], port=80)\n',
    ],
  ])("writes %j", (request, part) => {
    expect(textOf(writePython("forest", request))).toContain(part);
  });

  it("breaks long values into lines", () => {
    const names = Array.from({ length: 4 }, (_, at) => `a-rather-long-secret-name-${at}`);
    expect(textOf(writePython("forest", { function: "a", secrets: names, inputs: { names } }))).toContain(
      `    secrets=[
${names.map((name) => `        "${name}",\n`).join("")}    ],
    inputs={
        "names": [
${names.map((name) => `            "${name}",\n`).join("")}        ],
    },
`,
    );
  });

  it("cannot write a function whose code is only on the server", () => {
    expect(writePython("forest", { function: { name: "train", code: "abc" } })).toHaveProperty("unavailable");
  });
});

describe("writeCommand", () => {
  it("writes options, and a file for the rest", () => {
    const { words, files } = runInShell(textOf(writeCommand("forest", REQUEST)), "fairlead");
    expect(words).toEqual([
      ...["run", "--function", "train", "--project", "forest", "--profile", "small", "--cpu", "2"],
      ...["--secret", "HF_TOKEN", "--env", 'GREETING="hi" $USER'],
      ...["--input", "epochs=4", "--input", `note="it's $HOME"`],
      ...["--deadline", "90m", "--file", "run.yaml"],
    ]);
    expect(parse(files)).toEqual({ resources: { shm: true } });
  });

  it.each<[Request, string[], Request]>([
    [{}, [], {}],
    [{ template: "tuning", strict: true }, ["--template", "tuning", "--strict"], {}],
    [{ strict: false, template: "" }, [], {}],
    [{ priority: 0 }, ["--priority", "0"], {}],
    [
      { resources: { cpu: { requests: "1", limits: "2" }, mem: { requests: "1Gi", limits: "2Gi" } } },
      ["--cpu", "1", "--cpu-limit", "2", "--mem", "1Gi", "--mem-limit", "2Gi"],
      {},
    ],
    [{ resources: { gpu: { devices: 2 }, disk: { requests: "1Gi" } } }, ["--gpu", "2", "--disk", "1Gi"], {}],
    [
      { resources: { gpu: { devices: 1, memory: "50%" }, disk: { limits: "1Gi" } } },
      [],
      { resources: { gpu: { devices: 1, memory: "50%" }, disk: { limits: "1Gi" } } },
    ],
    [{ envs: { A: 1 } }, [], { envs: { A: 1 } }],
    [{ envs: [{ name: "A=B", value: 1 }] }, [], { envs: [{ name: "A=B", value: 1 }] }],
    [{ inputs: { "a b": 1, c: 2 } }, [], { inputs: { "a b": 1, c: 2 } }],
    [{ inputs: { a: { b: [1] }, c: null } }, ["--input", 'a={"b":[1]}', "--input", "c=null"], {}],
    [{ action: "serve", replicas: 2 }, [], { action: "serve", replicas: 2 }],
  ])("writes %j", (request, options, rest) => {
    const { words, files } = runInShell(
      textOf(writeCommand("forest", { function: "f", ...request })),
      "fairlead",
    );
    const isAll = Object.keys(rest).length === 0;
    expect(words.slice(5)).toEqual([...options, ...(isAll ? [] : ["--file", "run.yaml"])]);
    expect(parse(files) ?? {}).toEqual(rest);
  });

  it("cannot write a function of an earlier run, which has no name on the server", () => {
    expect(writeCommand("forest", { function: { name: "sh", command: ["ls"] } })).toHaveProperty(
      "unavailable",
    );
  });
});

it("writes the same request as YAML", () => {
  expect(parse(textOf(writeYaml("forest", REQUEST)))).toEqual(REQUEST);
});

describe("writeCurl", () => {
  it.each([
    ["forest", REQUEST, "https://fairlead.test/api/v1/projects/forest/runs"],
    [
      "a+b",
      { ...REQUEST, schedule: { cron: "0 3 * * *" } },
      "https://fairlead.test/api/v1/projects/a%2Bb/schedules",
    ],
  ])("posts the request to the project %s", (project, request, address) => {
    const text = textOf(writeCurl(project, request));
    const { words } = runInShell(text, "curl");
    expect(words).toContain(address);
    expect(JSON.parse(text.split("<<'EOF'\n")[1]!.split("\nEOF\n")[0]!)).toEqual(request);
  });
});
