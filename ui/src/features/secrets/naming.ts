/** Finds references to a secret in requirements, and names that cannot be part of a URL. */
import type { Finding } from "../../api/problems";

interface VolumeEntry {
  name?: string;
  volume_type?: string;
  spec?: { name?: string };
}

/** Whether the requirements give a run access to a secret, as a variable or a file. */
export function usesSecret(requirements: unknown, secret: string): boolean {
  const { secrets = [], volumes = [] } = (requirements ?? {}) as {
    secrets?: string[];
    volumes?: VolumeEntry[] | Record<string, VolumeEntry>;
  };
  const entries = Array.isArray(volumes)
    ? volumes
    : Object.entries(volumes).map(([name, volume]) => ({ name, ...volume }));
  return (
    secrets.includes(secret) ||
    entries.some((volume) => volume.volume_type === "secret" && (volume.spec?.name ?? volume.name) === secret)
  );
}

/** Names that would change the URL that contains them are never sent. The server checks all other names. */
export function findInvalidName(name: string): Finding[] {
  if (!name.includes("/") && !/^\.{1,2}$/.test(name)) return [];
  const hint = "use letters, digits, '_', '-' and '.', and do not start with a digit";
  return [{ path: "name", rule: "name", message: `'${name}' is not a valid name`, hint }];
}
