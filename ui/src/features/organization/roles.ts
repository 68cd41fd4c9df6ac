/** The roles and their permissions. */
export const ROLES = [
  { role: "viewer", title: "Viewer", description: "Can view everything here and below, and preview runs." },
  {
    role: "member",
    title: "Member",
    description: "Can view everything, submit runs, set secrets and create volumes.",
  },
  {
    role: "editor",
    title: "Editor",
    description: "Can view everything, and edit compute resources, templates and policies.",
  },
  {
    role: "admin",
    title: "Admin",
    description: "Can do everything, including managing scopes and roles and viewing the audit log.",
  },
] as const;

export type RoleName = (typeof ROLES)[number]["role"];

/** Splits "user:ada" into kind and name. */
export function splitSubject(subject: string): { kind: string; name: string } {
  const at = subject.indexOf(":");
  return { kind: subject.slice(0, at), name: subject.slice(at + 1) };
}
