/** Parses a function's inputs from YAML or JSON. Rejects values that JSON or the browser would change. */
import { parseDocument } from "yaml";
import type { Tree } from "../../../forms/trees";

// This limit also stops the conversion of a YAML alias that contains itself.
const MAX_DEPTH = 50;

export type Parsed = { value?: Tree; error?: string };

export function parseInputs(text: string): Parsed {
  // Plain numbers and objects would round large integers and turn keys into text before they can be checked.
  const document = parseDocument(text, { merge: true, intAsBigInt: true });
  const problem = document.errors[0] ?? document.warnings[0];
  if (problem) return { error: `invalid YAML or JSON: ${problem.message}` };
  try {
    const value = toJson(document.toJS({ mapAsMap: true }), 0);
    if (value === null) return {};
    if (typeof value !== "object" || Array.isArray(value)) {
      return { error: "enter names and values, e.g. epochs: 3" };
    }
    return { value: value as Tree };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

/** Converts a YAML value to JSON. Throws if the conversion would change the value. */
function toJson(value: unknown, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new Error("circular reference, or nested too deeply");
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, item]) => [toKey(key), toJson(item, depth + 1)]));
  }
  if (Array.isArray(value)) return value.map((item) => toJson(item, depth + 1));
  if (typeof value === "bigint") {
    if (Number.isSafeInteger(Number(value))) return Number(value);
    throw new Error(`the browser would round ${value}. Put it in quotes or use Python.`);
  }
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new Error(`JSON does not support the number ${value}`);
  }
  if (typeof value === "object" && value !== null) throw new Error("JSON does not support binary values");
  return value;
}

function toKey(key: unknown): string {
  if (typeof key === "string") return key;
  throw new Error(`invalid name ${String(key)}. Put it in quotes.`);
}
