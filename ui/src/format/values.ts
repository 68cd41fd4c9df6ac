/** Formats and compares requirement values. */

export function showValue(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(showValue).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** The paths and values of all leaves of a tree. */
export function listLeaves(value: unknown, path = ""): { path: string; value: unknown }[] {
  const tree = asTree(value);
  if (!tree) return path ? [{ path, value }] : [];
  return Object.entries(tree).flatMap(([key, inner]) => listLeaves(inner, path ? `${path}.${key}` : key));
}

/** Returns null for a leaf. A list of named items, such as envs, labels or volumes, becomes a mapping by name. */
function asTree(value: unknown): object | null {
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) return null;
  if (!Array.isArray(value)) return value;
  if (value.includes(null)) return null;
  const named = value.map(({ name, key, ...rest }): [string | undefined, unknown] => {
    const isPair = Object.keys(rest).join() === "value";
    return [name ?? key, isPair ? rest.value : rest];
  });
  const isUnique = new Set(named.map(([name]) => name)).size === named.length;
  return isUnique && named.every(([name]) => name) ? Object.fromEntries(named) : null;
}

/** The differences between two trees, sorted by path. */
export function listDifferences(
  before: unknown,
  after: unknown,
): { path: string; before: unknown; after: unknown }[] {
  const [old, now] = [before, after].map(
    (tree) => new Map(listLeaves(tree).map((leaf) => [leaf.path, leaf.value])),
  );
  const paths = [...new Set([...old!.keys(), ...now!.keys()])].sort();
  return paths
    .map((path) => ({ path, before: old!.get(path), after: now!.get(path) }))
    .filter((difference) => JSON.stringify(difference.before) !== JSON.stringify(difference.after));
}
