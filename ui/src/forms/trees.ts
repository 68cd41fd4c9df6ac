/** Trees of values, as the server keeps requirements and policies, and as forms write them. */

// biome-ignore lint/suspicious/noExplicitAny: the server checked what is in it
export type Tree = Record<string, any>;

export function text(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

/** A tree without what says nothing. */
export function said(tree: Tree): Tree {
  return Object.fromEntries(Object.entries(tree).filter(([, value]) => !isNothing(value)));
}

export function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/**
 * What was read, wherever a form says the same as when it was opened: what it does not show, and how it was written,
 * is not lost. `before` is what the form would have sent then, `after` what it would send now.
 */
export function keepUntouched(read: Tree, before: Tree, after: Tree): Tree {
  const keys = [...new Set([...Object.keys(read), ...Object.keys(after)])];
  const kept = keys.map((key) => {
    const [had, was, is] = [read[key], before[key], after[key]];
    if (JSON.stringify(was) === JSON.stringify(is)) return [key, had ?? is];
    return [key, isTree(had) && isTree(was) && isTree(is) ? keepUntouched(had, was, is) : is];
  });
  return Object.fromEntries(kept.filter(([, value]) => value !== undefined));
}

export function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
