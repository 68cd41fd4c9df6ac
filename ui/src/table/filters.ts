/** Converts between API filters and labels: `mem_request=>=32Gi` becomes "CPU memory request, at least, 32Gi". */
import type { Kind } from "./columns";

export interface Operator {
  label: string;
  /** The prefix of the value. */
  sign: string;
  /** The complete filter, for operators without a value. */
  fixed?: string;
}

const NULL_OPERATORS: Operator[] = [
  { label: "is not set", sign: "none", fixed: "none" },
  { label: "is set", sign: "!none", fixed: "!none" },
];

export const OPERATORS: Record<Kind, Operator[]> = {
  text: [
    { label: "contains", sign: "" },
    { label: "is", sign: "=" },
    { label: "is not", sign: "!" },
    ...NULL_OPERATORS,
  ],
  keyword: [{ label: "is", sign: "" }, { label: "is not", sign: "!" }, ...NULL_OPERATORS],
  number: [
    { label: "at least", sign: ">=" },
    { label: "at most", sign: "<=" },
    { label: "more than", sign: ">" },
    { label: "less than", sign: "<" },
    { label: "is", sign: "" },
    { label: "is not", sign: "!" },
    ...NULL_OPERATORS,
  ],
  time: [
    { label: "since", sign: ">=" },
    { label: "before", sign: "<" },
    { label: "after", sign: ">" },
    { label: "until", sign: "<=" },
    ...NULL_OPERATORS,
  ],
  boolean: [
    { label: "yes", sign: "true", fixed: "true" },
    { label: "no", sign: "false", fixed: "false" },
    { label: "any", sign: "any", fixed: "any" },
  ],
};

export function writeFilter(operator: Operator, value: string): string {
  return operator.fixed ?? operator.sign + value;
}

/** Parses a filter. The longest matching sign is the operator. */
export function readFilter(kind: Kind, text: string): { operator: Operator; value: string } {
  const known = OPERATORS[kind];
  const fixed = known.find((operator) => operator.fixed === text);
  if (fixed) return { operator: fixed, value: "" };
  const signed = known
    .filter((operator) => operator.fixed === undefined && text.startsWith(operator.sign))
    .sort((one, other) => other.sign.length - one.sign.length);
  // The URL may contain an invalid filter. It is shown unchanged, and the server reports the error.
  const operator = signed[0] ?? { label: "", sign: "" };
  return { operator, value: text.slice(operator.sign.length) };
}
