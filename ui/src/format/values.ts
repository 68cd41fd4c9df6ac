/** Values of requirements as people say them. */

export function showValue(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(showValue).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** A tree of values as lines: the path of each leaf, and what is there. */
export function listLeaves(value: unknown, path = ""): { path: string; value: unknown }[] {
  const tree = asTree(value);
  if (!tree) return path ? [{ path, value }] : [];
  return Object.entries(tree).flatMap(([key, inner]) => listLeaves(inner, path ? `${path}.${key}` : key));
}

/** A mapping, or a list of things with names as a mapping of them: envs, labels, volumes. */
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

/** What is different between two trees, by path. */
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
    .filter((found) => JSON.stringify(found.before) !== JSON.stringify(found.after));
}
