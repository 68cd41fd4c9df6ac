/** Inputs of a function as YAML or JSON: exactly what was typed reaches it, or a word on why it cannot. */
import { parseDocument } from "yaml";
import type { Tree } from "../../../forms/trees";

const DEEPEST = 50;

export type Parsed = { value?: Tree; wrong?: string };

export function parseInputs(text: string): Parsed {
  const document = parseDocument(text, { merge: true, intAsBigInt: true });
  const trouble = document.errors[0] ?? document.warnings[0];
  if (trouble) return { wrong: `is neither YAML nor JSON: ${trouble.message}` };
  try {
    const value = toJson(document.toJS({ mapAsMap: true }), 0);
    if (value === null) return {};
    if (typeof value !== "object" || Array.isArray(value)) {
      return { wrong: "must be names with values, such as epochs: 3" };
    }
    return { value: value as Tree };
  } catch (error) {
    return { wrong: (error as Error).message };
  }
}

/** A value as JSON has it. What JSON or this page would change on the way is an error. */
function toJson(value: unknown, depth: number): unknown {
  if (depth > DEEPEST) throw new Error("refers to itself, or is nested too deeply");
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, item]) => [toKey(key), toJson(item, depth + 1)]));
  }
  if (Array.isArray(value)) return value.map((item) => toJson(item, depth + 1));
  if (typeof value === "bigint") {
    if (Number.isSafeInteger(Number(value))) return Number(value);
    throw new Error(`has a number that a browser would round: ${value}. Put it in quotes, or use Python`);
  }
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new Error(`has a number that JSON does not know: ${value}`);
  }
  if (typeof value === "object" && value !== null) throw new Error("has bytes, which JSON does not know");
  return value;
}

function toKey(key: unknown): string {
  if (typeof key === "string") return key;
  throw new Error(`has a name that is no text: ${String(key)}. Put it in quotes`);
}
