/** The actions in the audit log (docs/admins/audit.md) and their colors. */
const ASSET = ["create", "edit", "rename", "archive", "restore", "delete"];
const SCOPE = ["create", "edit", "rename", "move", "delete"];

const ACTIONS: Record<string, string[]> = {
  platform: ["create"],
  cluster: SCOPE,
  department: SCOPE,
  project: SCOPE,
  compute_resource: ASSET,
  template: ASSET,
  policy: ["create", "edit", "delete"],
  settings: ["create", "edit"],
  secret: ["create", "edit", "reseal", "delete"],
  kubeconfig: ["create", "edit", "delete"],
  function: ["create", "edit", "delete"],
  schedule: ["create", "edit", "pause", "resume", "refuse", "delete"],
  volume: ["create", "delete"],
  role: ["create", "delete"],
  token: ["create", "delete"],
  run: ["create", "stop", "open", "delete"],
};

export const KINDS = Object.keys(ACTIONS);
export const ALL_ACTIONS = KINDS.flatMap((kind) => ACTIONS[kind]!.map((verb) => `${kind}.${verb}`));

/** Green for creation, red for deletion. */
export function colorOf(action: string): string | undefined {
  if (action.endsWith(".create"))
    return "light-dark(var(--mantine-color-teal-9), var(--mantine-color-teal-4))";
  if (action.endsWith(".delete")) return "var(--mantine-color-error)";
  return undefined;
}

export function showKind(kind: string): string {
  return kind.replaceAll("_", " ");
}
