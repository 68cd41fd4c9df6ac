/** What each role may do, in a sentence. */
export const ROLES = [
  { role: "viewer", title: "Viewer", may: "Sees everything here and below, and previews runs." },
  { role: "member", title: "Member", may: "Sees everything, submits runs, sets secrets and makes volumes." },
  {
    role: "editor",
    title: "Editor",
    may: "Sees everything, offers compute resources and templates, and writes policies.",
  },
  { role: "admin", title: "Admin", may: "May do all of that, and governs places, roles and the audit." },
] as const;

export type RoleName = (typeof ROLES)[number]["role"];

/** "user:ada" is a user called ada. */
export function splitSubject(subject: string): { kind: string; name: string } {
  const at = subject.indexOf(":");
  return { kind: subject.slice(0, at), name: subject.slice(at + 1) };
}
