/** Code snippets that submit a request: Python, CLI, YAML and curl. */
import { stringify } from "yaml";
import type { Request } from "../../../api/runs";
import { joinWords } from "../../../format/commands";
import type { Tree } from "../../../forms/trees";

/** A snippet, or the reason there is none. */
export type Snippet = { text: string } | { unavailable: string };

// Other names could contain the = that separates a name from its value in an option.
const PLAIN_NAME = /^[A-Za-z_][\w.-]*$/;
const FILE = "run.yaml";
/** Function fields that the Python SDK accepts without source code. */
const SDK_FIELDS = ["name", "kind", "image", "pull_policy", "pull_secrets", "command", "args", "port"];

export function writePython(project: string, request: Request): Snippet {
  const { function: requested, action, ...options } = request as Tree;
  const definition = typeof requested === "string" ? { name: requested } : (requested as Tree);
  if (Object.keys(definition).some((key) => !SDK_FIELDS.includes(key))) {
    return { unavailable: "The earlier run's code exists only on the server" };
  }
  const { name, ...fields } = definition;
  const functionArgs = [
    literal(name),
    ...Object.entries(fields).map(([key, value]) => `${key}=${literal(value)}`),
  ];
  const runArgs = [
    ...(action ? [literal(action)] : []),
    ...Object.entries(options).map(([key, value]) => `${key}=${literal(value, 4)}`),
  ];
  const run = runArgs.length > 0 ? `run(\n${runArgs.map((arg) => `    ${arg},\n`).join("")})` : "run()";
  return {
    text: `import fairlead as fl

project = fl.project(${literal(project)})
function = project.function(${functionArgs.join(", ")})
run = function.${run}
print(${options.schedule ? "run" : "run.id"})
`,
  };
}

export function writeCommand(project: string, request: Request): Snippet {
  const { function: name, ...fields } = request as Tree;
  if (typeof name !== "string") return { unavailable: "Only saved functions can run from the command line" };
  const { options, rest } = splitOptions(fields);
  const words = ["fairlead", "run", "--function", name, "--project", project, ...options];
  if (Object.keys(rest).length === 0) return { text: `${joinWords(words)}\n` };
  // The quotes around EOF prevent the shell from expanding $ in the text.
  const file = `cat > ${FILE} <<'EOF'\n${stringify(rest, { lineWidth: 0 })}EOF\n`;
  return { text: `${file}${joinWords([...words, "--file", FILE])}\n` };
}

export function writeYaml(_: string, request: Request): Snippet {
  return { text: stringify(request, { lineWidth: 0 }) };
}

export function writeCurl(project: string, request: Request): Snippet {
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

/** Splits a request into command-line options and the rest, which goes to a file. */
function splitOptions(request: Tree): { options: string[]; rest: Tree } {
  const { profile, template, deadline, priority, strict, secrets, envs, inputs, resources, ...rest } =
    request;
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

/** Splits resources into options and the rest. A resource goes to the file if any of its values has no option. */
function splitResources(resources: Tree): { options: string[]; rest: Tree } {
  const { cpu, mem, gpu, disk, ...rest } = resources;
  const options: string[] = [];
  const take = (name: string, bounds: Tree | undefined, flags: Record<string, string>) => {
    if (bounds === undefined) return;
    const keys = Object.keys(bounds);
    if (keys.every((key) => flags[key])) {
      for (const key of keys) options.push(...option(flags[key]!, bounds[key]));
    } else rest[name] = bounds;
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

/** Formats a value as a Python literal. */
function literal(value: unknown, indent = 0): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  // JSON strings and numbers are also Python literals.
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
