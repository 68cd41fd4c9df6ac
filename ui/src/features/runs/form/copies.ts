/** A request as text that asks for the same: Python, a command, YAML, and HTTP, which can say everything. */
import { stringify } from "yaml";
import type { Request } from "../../../api/runs";
import { joinWords } from "../../../format/commands";
import type { Tree } from "../../../forms/trees";

/** What can be said so, or why it cannot. */
export type Copied = { text: string } | { cannot: string };

const PLAIN_NAME = /^[A-Za-z_][\w.-]*$/;
const FILE = "run.yaml";
/** Of a function, what Python can be told of it: its code has to be here for more. */
const TELLABLE = ["name", "kind", "image", "pull_policy", "pull_secrets", "command", "args", "port"];

export function writePython(project: string, request: Request): Copied {
  const { function: said, action, ...asked } = request as Tree;
  const named = typeof said === "string" ? { name: said } : (said as Tree);
  if (Object.keys(named).some((key) => !TELLABLE.includes(key))) {
    return { cannot: "The code of an earlier run is on the server alone" };
  }
  const { name, ...about } = named;
  const called = [literal(name), ...Object.entries(about).map(([key, value]) => `${key}=${literal(value)}`)];
  const words = [
    ...(action ? [literal(action)] : []),
    ...Object.entries(asked).map(([key, value]) => `${key}=${literal(value, 4)}`),
  ];
  const run = words.length > 0 ? `run(\n${words.map((word) => `    ${word},\n`).join("")})` : "run()";
  return {
    text: `import fairlead as fl

project = fl.project(${literal(project)})
function = project.function(${called.join(", ")})
run = function.${run}
print(${asked.schedule ? "run" : "run.id"})
`,
  };
}

export function writeCommand(project: string, request: Request): Copied {
  const { function: name, ...asked } = request as Tree;
  if (typeof name !== "string") return { cannot: "A command names a function that is kept" };
  const { options, rest } = splitOptions(asked);
  const words = ["fairlead", "run", "--function", name, "--project", project, ...options];
  if (Object.keys(rest).length === 0) return { text: `${joinWords(words)}\n` };
  const file = `cat > ${FILE} <<'EOF'\n${stringify(rest, { lineWidth: 0 })}EOF\n`;
  return { text: `${file}${joinWords([...words, "--file", FILE])}\n` };
}

export function writeYaml(_: string, request: Request): Copied {
  return { text: stringify(request, { lineWidth: 0 }) };
}

export function writeCurl(project: string, request: Request): Copied {
  const noun = (request as Tree).schedule ? "schedules" : "runs";
  const address = `${window.location.origin}/api/v1/projects/${encodeURIComponent(project)}/${noun}`;
  return {
    text: `curl --fail-with-body -sS -X POST ${joinWords([address])} \\
  -H "Authorization: Bearer $FAIRLEAD_TOKEN" -H "Content-Type: application/json" \\
  --data-binary @- <<'EOF'
${JSON.stringify(request, null, 2)}
EOF
`,
  };
}

/** What options can say, and what is left for a file. */
function splitOptions(asked: Tree): { options: string[]; rest: Tree } {
  const { profile, template, deadline, priority, strict, secrets, envs, inputs, resources, ...rest } = asked;
  const amounts = splitResources(resources ?? {});
  const isPlain = (names: string[]) => names.every((name) => PLAIN_NAME.test(name));
  const variables: Tree[] = Array.isArray(envs) ? envs : [];
  const areVariables = Array.isArray(envs) && isPlain(variables.map((env) => String(env.name)));
  const areInputs = isPlain(Object.keys(inputs ?? {}));
  const options = [
    ...option("--profile", profile),
    ...option("--template", template),
    ...amounts.options,
    ...(secrets ?? []).flatMap((secret: string) => option("--secret", secret)),
    ...(areVariables ? variables.flatMap((env) => option("--env", `${env.name}=${env.value}`)) : []),
    ...(areInputs
      ? Object.entries(inputs ?? {}).flatMap(([key, value]) =>
          option("--input", `${key}=${JSON.stringify(value)}`),
        )
      : []),
    ...option("--deadline", deadline),
    ...option("--priority", priority),
    ...(strict ? ["--strict"] : []),
  ];
  return {
    options,
    rest: {
      ...rest,
      ...(Object.keys(amounts.rest).length > 0 && { resources: amounts.rest }),
      ...(envs && !areVariables && { envs }),
      ...(inputs && !areInputs && { inputs }),
    },
  };
}

/** Options that say each amount as a whole; one that they cannot say is for the file. */
function splitResources(resources: Tree): { options: string[]; rest: Tree } {
  const { cpu, mem, gpu, disk, ...rest } = resources;
  const options: string[] = [];
  const take = (name: string, said: Tree | undefined, flags: Record<string, string>) => {
    if (said === undefined) return;
    const keys = Object.keys(said);
    if (keys.every((key) => flags[key])) {
      for (const key of keys) options.push(...option(flags[key]!, said[key]));
    } else rest[name] = said;
  };
  take("cpu", cpu, { requests: "--cpu", limits: "--cpu-limit" });
  take("mem", mem, { requests: "--mem", limits: "--mem-limit" });
  take("gpu", gpu, { devices: "--gpu" });
  take("disk", disk, { requests: "--disk" });
  return { options, rest };
}

function option(flag: string, value: unknown): string[] {
  return value === undefined || value === "" ? [] : [flag, String(value)];
}

/** A value as Python writes it. */
function literal(value: unknown, indent = 0): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = Array.isArray(value)
    ? value.map((item) => literal(item, indent + 4))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${literal(item, indent + 4)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const line = `${open}${inner.join(", ")}${close}`;
  if (line.length + indent <= 88 && !line.includes("\n")) return line;
  const pad = " ".repeat(indent + 4);
  return `${open}\n${inner.map((item) => `${pad}${item},\n`).join("")}${" ".repeat(indent)}${close}`;
}
