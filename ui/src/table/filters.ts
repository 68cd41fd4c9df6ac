/** Filters as the API writes them, for people: `mem_request=>=32Gi` is "CPU memory request, at least, 32Gi". */
import type { Kind } from "./columns";

export interface Operator {
  label: string;
  /** What stands before the value. */
  sign: string;
  /** The whole filter, where no value is asked for. */
  fixed?: string;
}

const NOTHING: Operator[] = [
  { label: "is not set", sign: "none", fixed: "none" },
  { label: "is set", sign: "!none", fixed: "!none" },
];

export const OPERATORS: Record<Kind, Operator[]> = {
  text: [
    { label: "contains", sign: "" },
    { label: "is", sign: "=" },
    { label: "is not", sign: "!" },
    ...NOTHING,
  ],
  word: [{ label: "is", sign: "" }, { label: "is not", sign: "!" }, ...NOTHING],
  number: [
    { label: "at least", sign: ">=" },
    { label: "at most", sign: "<=" },
    { label: "more than", sign: ">" },
    { label: "less than", sign: "<" },
    { label: "is", sign: "" },
    { label: "is not", sign: "!" },
    ...NOTHING,
  ],
  time: [
    { label: "since", sign: ">=" },
    { label: "before", sign: "<" },
    { label: "after", sign: ">" },
    { label: "until", sign: "<=" },
    ...NOTHING,
  ],
  flag: [
    { label: "yes", sign: "true", fixed: "true" },
    { label: "no", sign: "false", fixed: "false" },
    { label: "yes or no", sign: "any", fixed: "any" },
  ],
};

export function writeFilter(operator: Operator, value: string): string {
  return operator.fixed ?? operator.sign + value;
}

/** The operator and the value of a filter; the longest sign that fits is meant. */
export function readFilter(kind: Kind, text: string): { operator: Operator; value: string } {
  const known = OPERATORS[kind];
  const fixed = known.find((operator) => operator.fixed === text);
  if (fixed) return { operator: fixed, value: "" };
  const signed = known
    .filter((operator) => operator.fixed === undefined && text.startsWith(operator.sign))
    .sort((one, other) => other.sign.length - one.sign.length);
  // An address may say anything: what is no filter of ours is shown as it is, and the server says what it thinks of it.
  const operator = signed[0] ?? { label: "", sign: "" };
  return { operator, value: text.slice(operator.sign.length) };
}
