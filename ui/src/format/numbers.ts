/** Parses JSON without rounding large integers. */

/** TypeScript and older browsers do not support source text access and `JSON.rawJSON` yet. */
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
const { parse, rawJSON } = JSON as unknown as {
  parse: (text: string, reviver: Reviver) => unknown;
  rawJSON?: (text: string) => unknown;
};

export function parseExactly(text: string): unknown {
  return parse(text, (_, value, context) => {
    const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    const source = context?.source ?? "";
    return isRounded && rawJSON && /^-?[0-9]+$/.test(source) ? rawJSON(source) : value;
  });
}
