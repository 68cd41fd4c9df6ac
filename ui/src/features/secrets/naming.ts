/** Names of secrets: where requirements name one, and which names have no address. */
import type { Finding } from "../../api/problems";

interface Mounted {
  name?: string;
  volume_type?: string;
  spec?: { name?: string };
}

/** Whether requirements give a secret to a run, as a variable or as a file. */
export function namesSecret(requirements: unknown, secret: string): boolean {
  const { secrets = [], volumes = [] } = (requirements ?? {}) as {
    secrets?: string[];
    volumes?: Mounted[] | Record<string, Mounted>;
  };
  const mounted = Array.isArray(volumes)
    ? volumes
    : Object.entries(volumes).map(([name, volume]) => ({ name, ...volume }));
  return (
    secrets.includes(secret) ||
    mounted.some((volume) => volume.volume_type === "secret" && (volume.spec?.name ?? volume.name) === secret)
  );
}

/** A name is part of the address: one that would lead elsewhere is never sent. The server checks the others. */
export function findMisleading(name: string): Finding[] {
  if (!name.includes("/") && !/^\.{1,2}$/.test(name)) return [];
  const hint = "use letters, digits, '_', '-' and '.', not beginning with a digit";
  return [{ path: "name", rule: "name", message: `is no valid name: '${name}'`, hint }];
}
