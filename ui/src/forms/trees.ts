/** Nested objects that represent requirements and policies, and helpers for forms that edit them. */

// biome-ignore lint/suspicious/noExplicitAny: the server validates the contents
export type Tree = Record<string, any>;

export function text(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

/** Returns the tree without empty values. */
export function omitEmpty(tree: Tree): Tree {
  return Object.fromEntries(Object.entries(tree).filter(([, value]) => !isEmpty(value)));
}

export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/**
 * Applies only the changes that were made in a form. Unchanged values keep the notation in which they were read, and
 * values without a field are preserved. `before` is what the form would have sent when it was opened, and
 * `after` is what it would send now.
 */
export function keepUntouched(read: Tree, before: Tree, after: Tree): Tree {
  const keys = [...new Set([...Object.keys(read), ...Object.keys(after)])];
  const entries = keys.map((key) => {
    const [original, old, current] = [read[key], before[key], after[key]];
    if (JSON.stringify(old) === JSON.stringify(current)) return [key, original ?? current];
    const isNested = isTree(original) && isTree(old) && isTree(current);
    return [key, isNested ? keepUntouched(original, old, current) : current];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

export function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
